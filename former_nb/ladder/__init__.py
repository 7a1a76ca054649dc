"""One number that falls through the course: nats per character on names that were held out."""
