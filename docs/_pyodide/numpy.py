"""What the course's modules use of NumPy when a lesson is checked in the browser: a seed."""


class random:
    """Random numbers of NumPy's own; the exercises draw none."""

    @staticmethod
    def seed(number):
        """Nothing to seed."""
