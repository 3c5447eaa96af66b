"""Pages under docs/ that promise to be complete are held to it here."""
