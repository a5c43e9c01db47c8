"""Estimators of scikit-learn: prototype networks and kernel regression, without torch."""
