"""What must hold after every step: `all` is the table, each other module has the checks of one subject."""
