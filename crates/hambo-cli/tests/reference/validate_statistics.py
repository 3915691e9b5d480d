"""Reference values of src/validate/statistics.rs: python3 validate_statistics.py (needs SciPy and NumPy)."""
import numpy
import scipy
from scipy.stats import beta, spearmanr

print(f"SciPy {scipy.__version__}, NumPy {numpy.__version__}")
for count, of in [(0, 40), (1, 37), (5, 101), (20, 20), (3, 1000)]:
    low = float(beta.ppf(0.025, count, of - count + 1)) if count else 0.0
    high = float(beta.ppf(0.975, count + 1, of - count)) if count < of else 1.0
    print(f"({count}, {of}, {low!r}, {high!r}),")
print([float(q) for q in numpy.quantile([3.0, -1.0, 7.5, 2.0, 2.0, 11.0], [0.1, 0.5, 0.9])])
print(float(spearmanr([-300.0, -290.0, -200.0, -310.0, -210.0, -250.0], [-205.0, -222.0, -179.0, -210.0, -170.0, -193.0]).statistic))
print(float(spearmanr([1.0, 2.0, 2.0, 3.0], [2.0, 1.0, 3.0, 4.0]).statistic))
