"""What the commands of `former-nb` do; `cli.py` gives it names and options."""
