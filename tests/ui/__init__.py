"""The web page in a browser: tests with Debian's chromium, and the screenshots of the documentation."""
