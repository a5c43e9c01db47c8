"""The claims of the IDW attention paper, judged by the stored runs."""
