"""Define every tuned number of the default method, and cite the measurement that chose it, if there is one.

A figure after another value is its difference to the value here. Fits are at epsilon 3.7 or 1 on four tables
(docs/methods/mixture-ablation.md, docs/decisions/0061-one-estimator.md, docs/decisions/research-log.md). A table
without declared regressions and with at most 100 columns uses 41 numbers: the 33 before "Public rows", and eight in
other modules. Those in `methods/` are: `bins.WIDE` (0: two-way -.0017 on thyroid at 3.7), `bins.MERGED_WIDE` (.5:
two-way -.002 on the hospital extract at 1), `bins.LARGEST_LOG_RATIO`, `bins.TAIL`, `marginals.NUMERIC_CLASSES`,
`marginals.GRID_CELLS` and `digit_preference.PREFERENCE_STDS`. The last one is `estimate.FORGETTING`. Sizes that bound
time and memory come at the end. They do not change results of tables that fit.
"""

from __future__ import annotations

# Labels of the measurements in plan and ledger.
COARSE, VALUES = "coarse one-way marginals", "frequent values"
BY_CLASS = "class-by-bin marginals"
MATRIX = "matrices of second moments"
PAIRS, STRONGEST = "pairs of columns by class", "strongest pairs of columns"
CROSSED = "products of two and of three columns"
DECLARED = "weighted moments of declared regressions"

# Shares of the squared noise budget. Pairs by class get the rest.
COARSE_SHARE = 0.05  # even cells, from which fine grids are made
VALUES_SHARE = 0.03  # counts of every single value, to find frequent ones
ONE_WAY_SHARE = 0.17
BY_CLASS_SHARE = 0.25  # .15 on the hospital extract: the same
FEW_ROWS, FEW_PAIRS = 2_000, 0.6  # with fewer rows, the part of the pairs' share that stays; 1: two-way -.01
STRONG_SHARE = 0.15  # a second count of the strongest pairs; .1 for ten pairs: propensity +.027 on the hospital extract

# Grids and bins of numbers.
COARSE_CELLS, FINE_CELLS = 32, 64  # even cells, and cells that follow the rows
MOST_FREQUENT = 100  # values of a column with their own cell; a laboratory that rounds has a few dozen
FREQUENT_CHANCE = 0.01  # probability that noise alone makes some value of a column look frequent
TAIL_STDS = 3.0  # of noise: exceeded by a clear coarse cell at an end; most that is cut off; 4: one-way -.002
TAIL_SHARE = 0.01  # of all rows: most that is cut off
TAIL_PARTS = (1.0, 0.5, 0.25)  # start of a tail, as parts of the level of the cells before it; only 1: one-way -.003
CURVATURES = (0.05, 0.2, 1.0)  # prior curvatures of a number's log density between fine cells; learned from the counts
ROUGHNESSES = (0.0, 0.2, 1.0, 3.0)  # prior deviations of a cell's log density from that curve
FLAT = 1e-3  # precision of a cell without informative neighbours, and of the curve's level and slope
DIGITS_WEIGHT = 0.3  # of a table of digits, relative to another table with as many cells
BINS = 20  # most bins of a number by itself; parts of a categorical column with their own features; and even coarse
# cells of a column with cut points, before cells that end near a cut point are joined

# Pairs.
PAIR_NOISE = 0.4  # L1 noise of a pair's table, as a share of the rows; .6: two-way -.0014 on the hospital extract
FEWEST_BINS = 4  # of a number in a pair
PAIR_LEVELS = 8  # least levels of a categorical column in a pair; 16: two-way -.0008 on the hospital extract
STRONG_PAIRS = 30

# The model.
POINTS = 256  # latent points; 32: propensity +.03 on the hospital extract
WAVES = 8  # cosines along the bins of a number; 12 on 50,000 rows: two-way +.0003
DECAY = 1.5  # power of the frequency by which a cosine is divided
GAP_SIZE = 3.0  # of a missing value's feature; 1, 300 rows: of 26 % that lack five columns together, 8 % do, not 20 %
START_STD = 0.1  # of latent coefficients before the first step, so that points start at different places

# The prior.
CLASS_STD = 2.0  # of the step between neighbouring class logits, or of a level's; 1: thyroid's mean AuROC at 1 -.013
RIDGE_STD = 10.0  # of a base logit
# A point's latent coefficients are drawn from a normal distribution with a learned covariance S. Their precision is
# LATENT_WEIGHT / POINTS times the inverse of S + LATENT_FLOOR. Before S is learned, it is LATENT_FLOOR. S not learned:
# propensity +.04 on the hospital extract. Half of all three: the same on three tables, two-way +.001 on thyroid at 1.
LATENT_WEIGHT, LATENT_FLOOR = 64.0, 2.0
LEARN_EVERY = 50  # steps between updates of S; 10: two-way -.0012 on the hospital extract

# The fit.
STEPS = 300  # of Adam; 900 on 50,000 rows: two-way +.0003 with 12 waves
LEARNING_RATE = 0.06  # it falls to zero over the second half of the steps

TRUST = "public.trust"  # tensor of a model: the place of its trust in public rows, and their own misfit
TRUST_WORDS = ("not at all", "weakly", "strongly", "strongly, and used alone")
UNCOVERED = (
    "A prior from public rows can bias estimates, and nobody has measured whether intervals then cover the truth."
)
UNKNOWN = -1  # code of a public cell that is absent or not in the schema

# Public rows.
PUBLIC_STEPS, TRIAL_STEPS = 200, 150  # of the fit to public rows, and of each fit that chooses the trust
MANY_ROWS = 2_000  # from here on the usual number of steps chooses: short fits lean to the public rows at 5,000 rows
SPLIT = 0.7  # noise added to the releases that candidates are fitted to, relative to their own
TILTS = (0.02, 0.1, 0.3, 1.0)  # sizes of smooth log ratios of two populations' densities; 3 also imitates a wrong table
EVEN_TILTS = (1.0, 3.0, 10.0)  # the same for an even density, which competes with the public one
TILT_LENGTH = 0.25  # correlation length of a tilt along the public quantiles
EVEN = 0.01  # part of an even density in the public one
PUBLIC_TAIL = 0.002  # share of public rows at each end whose cells are kept by private counts alone
SPREADS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 10.0)  # relative differences of class sizes between populations
EVEN_CLASSES = 0.1  # part of even classes in the size that such a difference is relative to

# Declared regressions.
DECLARED_FIRMNESS = 30.0  # weight of their moments, relative to that by their noise; 1: slopes 7 % too small, not 2 %
CLIPPED_ROWS = (0.0002, 0.002, 0.01, 0.05)  # shares of independent rows that are clipped; the noise chooses one
LEFT_OUT, CLIPPED_ENDS = 0.01, 0.0025  # shares of rows at each end: ignored by the standard deviation, clipped
FAR = 4.5  # standard deviations from the mean, where values are clipped
LEAST_SIZE = 0.1  # smallest divisor of an item: the standard deviation of a level with 1 % of the rows
ALONE, OF_TARGET = 0.5, 2.0  # weights of squares and means of one column, and of its products with the target
MOST_CROSSED = 8  # levels of a column in an interaction, in addition to its most frequent one

# Products of two and of three columns.
NEARLY_ALL = 0.97  # of the rows: a column with such a level has no features
FEATURE_CLIP = 2.5  # standard deviations of a feature
TRIPLE_WEIGHT = 0.5  # of a product of three signs, relative to one of two values
CROSSED_FIRMNESS = 5.0  # weight of these sums, relative to that by their noise; 1: XOR .65, not .94

# Tables of hundreds of columns.
WIDE_COLUMNS = 100  # wider tables use matrices of second moments in place of pairs
WIDE_POINTS = 512  # latent points of a wide table
RANK, SHARED_ROUNDS, MOST_SHARED = 20, 4, 0.95  # of the latent variable; rounds, and largest share, of shared variance
NORM_ROOM = 1.5  # largest ratio of a row's squared norm to its expectation; larger rows are clipped

# Sizes that bound time and memory.
FEWEST_POINTS, MOST_NUMBERS = 32, 1 << 22  # latent points; most points times classes times bins
MOST_VALUES = 1 << 22  # of all columns in which frequent values are searched
MOST_ENTRIES = 1 << 22  # of all matrices together; for wider tables a random part of the columns is read
MOST_PRODUCTS = 5_000  # of two and three columns: all pairs of 100 columns; triples of up to 31 columns, too
DRAWN_ROWS, DRAWN_PER_CELL = 20_000, 64  # public draws: rows, per cell of a rule
DRAWN_NUMBERS = 1 << 24  # most products of the drawn rows together
