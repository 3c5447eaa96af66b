"""The pages, a module each: what is on it, found in slices, as a view."""
