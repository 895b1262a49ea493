"""Every tuned number of the default method: what it is, and the figure that chose it where there is one.

Figures are differences to the value that stands here, of fits at epsilon 3.7 or 1 on four tables
(docs/methods/mixture-ablation.md, docs/decisions/0061-one-estimator.md, docs/decisions/research-log.md). A table
without declared regressions and with at most 100 columns reads 40 of them: the 32 before "Declared regressions", and
eight that stand where other methods read them, too. These are, in `methods/`: `bins.WIDE` (0: two-way -.0017 on
thyroid at 3.7), `bins.MERGED_WIDE` (.5: two-way -.002 on the hospital extract at 1), `bins.LARGEST_LOG_RATIO`,
`bins.TAIL`, `marginals.NUMERIC_CLASSES`, `marginals.GRID_CELLS` and `digit_preference.PREFERENCE_STDS`; and
`estimate.FORGETTING`. Sizes that bound time and memory come last. They change no figure of a table that fits.
"""

from __future__ import annotations

# What the measurements are called in plan and ledger.
COARSE, VALUES = "coarse one-way marginals", "frequent values"
BY_CLASS = "class-by-bin marginals"
MATRIX = "matrices of second moments"
PAIRS, STRONGEST = "pairs of columns by class", "strongest pairs of columns"
DECLARED = "weighted moments of declared regressions"

# Shares of the squared noise budget. Pairs by class get the rest.
COARSE_SHARE = 0.05  # even cells, by which fine grids are cut
VALUES_SHARE = 0.03  # every single value, to find frequent ones
ONE_WAY_SHARE = 0.17
BY_CLASS_SHARE = 0.25  # .15 on the hospital extract: the same
STRONG_SHARE = 0.15  # the strongest pairs, again; .1 for ten pairs: propensity +.027 on the hospital extract

# Grids and bins of numbers.
COARSE_CELLS, FINE_CELLS = 32, 64  # even cells, and cells that follow the rows
MOST_FREQUENT = 100  # values of a column with a cell of their own: a laboratory that rounds has a few dozen
FREQUENT_CHANCE = 0.01  # that noise alone makes some value of a column look frequent
TAIL_STDS = 3.0  # of its noise: what a clear coarse cell at an end exceeds, and what may be cut off; 4: one-way -.002
TAIL_SHARE = 0.01  # of all rows, which may be cut off at most
TAIL_PARTS = (
    1.0,
    0.5,
    0.25,
)  # where a tail begins, as parts of the level of the cells before; 1 alone: one-way -.003
CURVATURES = (0.05, 0.2, 1.0)  # how much the log density of a number may curve between fine cells: one is learned
ROUGHNESSES = (0.0, 0.2, 1.0, 3.0)  # of a cell's log density around that curve
FLAT = 1e-3  # precision of a cell that no neighbour tells of, and of the curve's level and slope
DIGITS_WEIGHT = 0.3  # of the table of a column's digits, as a share of that of one with as many cells
BINS = 20  # of a number by itself, at most; parts of a categorical column with features of their own; and even coarse
# cells of a column with cut points, before those that end near one are joined

# Pairs.
PAIR_NOISE = 0.4  # L1 noise of a pair's table, as a share of the rows; .6: two-way -.0014 on the hospital extract
FEWEST_BINS = 4  # of a number in a pair
PAIR_LEVELS = 8  # of a categorical column in a pair, at least; 16: two-way -.0008 on the hospital extract
STRONG_PAIRS = 30

# The model.
POINTS = 256  # latent points; 32: propensity +.03 on the hospital extract
WAVES = 8  # cosines along the bins of a number; 12 on 50,000 rows: two-way +.0003
DECAY = 1.5  # power of the frequency by which a cosine shrinks
START_STD = 0.1  # of latent coefficients before the first step: points begin apart

# The prior.
CLASS_STD = 2.0  # of the step between neighbouring class logits, or of a level's; 1: thyroid's mean AuROC at 1 -.013
RIDGE_STD = 10.0  # of a base logit
# A point's latent coefficients are a draw from a normal distribution whose covariance S is learned. Their precision is
# LATENT_WEIGHT / POINTS times the inverse of S + LATENT_FLOOR. Before S is learned, it is LATENT_FLOOR. Not learned:
# propensity +.04 on the hospital extract. Half of all three: the same on three tables, two-way +.001 on thyroid at 1.
LATENT_WEIGHT, LATENT_FLOOR = 64.0, 2.0
LEARN_EVERY = 50  # steps, after which S is learned anew; 10: two-way -.0012 on the hospital extract

# The fit.
STEPS = 300  # of Adam; 900 on 50,000 rows: two-way +.0003 with 12 waves
LEARNING_RATE = 0.06  # it falls to zero over the second half of the steps

# Declared regressions.
DECLARED_FIRMNESS = 30.0  # of their moments, as a multiple of what their noise asks; 1: slopes 7 % short, not 2 %
CLIPPED_ROWS = (0.0002, 0.002, 0.01, 0.05)  # shares of independent rows, one of which is clipped: noise decides
LEFT_OUT, CLIPPED_ENDS = 0.01, 0.0025  # shares of rows at either end: of no standard deviation, and clipped
FAR = 4.5  # standard deviations from the mean, where values are clipped
LEAST_SIZE = 0.1  # by which an item is divided: a level of 1 % of the rows has that of its standard deviation
ALONE, OF_TARGET = 0.5, 2.0  # weights of squares and means of one column, and of means that are the target's products
MOST_CROSSED = 8  # levels of a column in an interaction, next to its most frequent one

# Tables of hundreds of columns.
WIDE_COLUMNS = 100  # of a table of more, matrices of second moments are measured in place of pairs
WIDE_POINTS = 512  # latent points of such a table
RANK, SHARED_ROUNDS, MOST_SHARED = 20, 4, 0.95  # of the latent variable; rounds, and most, of variance that is shared
NORM_ROOM = 1.5  # by which a row's squared norm may exceed what is expected of it before it is clipped

# Sizes that bound time and memory.
FEWEST_POINTS, MOST_NUMBERS = 32, 1 << 22  # latent points; points times classes times bins: of more, fewer points
MOST_VALUES = 1 << 22  # of all columns together in which frequent values are looked for
MOST_INPUTS, MOST_RULE_CELLS = 3, 1 << 14  # of a rule's columns, and of their table: of more, sampling alone meets it
MOST_ENTRIES = 1 << 22  # of all matrices together: of wider tables a random part of the columns is read
DRAWN_ROWS, DRAWN_PER_CELL, MOST_DRAWN = 20_000, 64, 1 << 18  # in public: rows, in each cell of a rule, in all cells
