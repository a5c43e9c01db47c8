"""One HTML file that shows a results database in a browser."""
