"""Every tuned number of the default method, with what it is and why it has this value."""

from __future__ import annotations

# Shares of the squared noise budget. Pairs by class get the rest.
COARSE_SHARE = 0.05  # even cells, by which fine grids are cut
VALUES_SHARE = 0.03  # every single value, to find frequent ones
ONE_WAY_SHARE = 0.17
BY_CLASS_SHARE = 0.25
STRONG_SHARE = 0.15  # the strongest pairs, again

# Resolution.
WIDE = 0.5  # the part of a bin's width in where columns are cut, next to its mass
COLUMN_BINS = 20  # of a number by itself
PAIR_NOISE = 0.4  # L1 noise of a pair's table, as a share of the rows, that sets how finely a pair is cut
FEWEST_BINS, MOST_BINS = 4, 20  # of a number in a pair
PAIR_LEVELS = 8  # of a categorical column in a pair, at least
STRONG_PAIRS = 30
WIDE_COLUMNS = 100  # of a table of more, matrices of second moments are measured in place of pairs

# The model.
POINTS, FEWEST_POINTS = 256, 32  # latent points
WIDE_POINTS = 512  # of a table of hundreds of columns, which follow a variable of few dimensions
MOST_NUMBERS = 1 << 22  # points times classes times bins: of more, there are fewer points
WAVES = 8  # cosines along the bins of a number
DECAY = 1.5  # power of the frequency by which a cosine shrinks
START_STD = 0.1  # of latent coefficients before the first step, in prior standard deviations: points begin apart

# The prior.
CURVATURE_STD = 3.0  # of the second difference of neighbouring base logits
CLASS_STD = 2.0  # of the step between neighbouring class logits, or of a level's
CLASS_LEVEL = 0.1  # precision of a class logit of a number itself, as a share of that of a step
GAP_STD = 9.0  # of the base logit of a missing value
RIDGE_STD = 30.0  # of a logit that nothing else holds
# A point's latent coefficients are a draw from a normal distribution whose covariance S is learned. Their precision is
# LATENT_WEIGHT / POINTS times the inverse of S + LATENT_FLOOR. Before S is learned, it is LATENT_START.
LATENT_WEIGHT, LATENT_FLOOR, LATENT_START = 64.0, 2.0, 6.0
LEARN_EVERY = 50  # steps, after which S is learned anew

# The fit.
STEPS = 300  # of Adam
DECLARED_FIRMNESS = 30.0  # of declared moments: so many times as much as their noise asks, against the prior
REPLICATE_STEPS = 150  # of each replicate, from the fitted mixture
LEARNING_RATE = 0.06  # it falls to zero over the second half of the steps
