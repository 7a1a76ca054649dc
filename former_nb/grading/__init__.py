"What judges a reader's file."
