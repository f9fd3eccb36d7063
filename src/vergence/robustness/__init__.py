"""Robustness: evaluation of classifiers under adversarial perturbations."""
