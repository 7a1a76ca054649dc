"Judges of the builds: a reader's own file, run in a process of its own, and a reader's own task."
