import unittest

from harness import stats


class Stats(unittest.TestCase):
    def test_summary_tells_how_far_the_farthest_round_was_from_the_median(self):
        found = stats.summary([90, 100, 130, None])
        self.assertEqual((found["median"], found["low"], found["high"]), (100, 90, 130))
        self.assertAlmostEqual(found["spread"], 0.3)

    def test_summary_of_nothing_is_nothing(self):
        self.assertIsNone(stats.summary([None]))
        self.assertEqual(stats.summary([0, 0])["spread"], 0)

    def test_ratio_is_taken_round_by_round(self):
        # Both sides were slowed down in the second round: that is no difference between them.
        self.assertEqual(stats.ratio([200, 20, 300], [100, 10, 150]), 2)

    def test_ratio_leaves_out_rounds_that_one_side_lacks(self):
        self.assertEqual(stats.ratio([200, None, 300], [100, 10]), 2)
        self.assertIsNone(stats.ratio([], [1]))
        self.assertIsNone(stats.ratio([1], [0]))
