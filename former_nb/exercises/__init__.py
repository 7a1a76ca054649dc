"The right file, a lesson a module: definitions, the ways to get them wrong, and what is asked."
