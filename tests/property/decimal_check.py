#!/usr/bin/python3
"""decimal_check.py DRIVER [--seed N] [--count N] [--long] - our arithmetic against Python's.

Asks the driver random questions (reading, writing, rounding, scaling, sums, products, whole sizes through
the rules) and works every one out again with `decimal` and `fractions`, exactly. Prints the seed; with it a
run is the same. Ends with a line `N passed, N failed`."""
import argparse
import decimal
import random
import re
import subprocess
import sys
from fractions import Fraction

ONE = 10 ** 8
INT64_MAX = 2 ** 63 - 1
UINT128_MAX = 2 ** 128 - 1
SHAPE = re.compile(r"-?[0-9]{1,10}(\.[0-9]{1,8})?\Z", re.ASCII)
MODES = {"down": decimal.ROUND_DOWN, "up": decimal.ROUND_UP, "nearest": decimal.ROUND_HALF_UP}
ROUNDINGS = sorted(MODES)
decimal.getcontext().prec = 200
LONG_COUNT = 1_000_000
SHORT_COUNT = 200_000


def text_of(units):
    """Canonical: no trailing zeros, no plus, no minus zero."""
    value = decimal.Decimal(units).scaleb(-8)
    text = format(value, "f").rstrip("0").rstrip(".")
    return "0" if text in ("", "-0", "-") else text


def whole(value, rounding):
    """A Fraction to a whole number."""
    quotient = decimal.Decimal(value.numerator) / decimal.Decimal(value.denominator)
    magnitude, rest = divmod(abs(value.numerator), value.denominator)
    if rounding == "up" and rest:
        magnitude += 1
    if rounding == "nearest" and 2 * rest >= value.denominator:
        magnitude += 1
    result = magnitude if value >= 0 else -magnitude
    # A second opinion wherever 200 digits tell the fraction exactly.
    if quotient * value.denominator == value.numerator:
        assert result == int(quotient.quantize(decimal.Decimal(1), rounding=MODES[rounding])), (value, rounding)
    return result


def fits(units):
    return -INT64_MAX <= units <= INT64_MAX


def answer_of(units):
    return text_of(units) if fits(units) else "no"


class Questions:
    def __init__(self, rng):
        self.rng = rng

    def units(self, top=10 ** 18 - 1, sign=True):
        """A number of units, small ones, round ones and the largest ones alike."""
        value = self.rng.randrange(10 ** self.rng.randint(1, 18))
        kind = self.rng.random()
        if kind < 0.2:
            value = value // ONE * ONE or ONE
        elif kind < 0.3:
            value = self.rng.choice([0, 1, ONE, top, ONE - 1, ONE + 1])
        value = min(value, top)
        return -value if sign and self.rng.random() < 0.3 else value

    def raw(self):
        """Anything an int64 holds but the one that means absent."""
        return self.rng.choice([self.units(), self.rng.randint(-INT64_MAX, INT64_MAX), INT64_MAX, -INT64_MAX, 0])

    def step(self):
        return self.rng.choice([1, 10, 1000, 10 ** 6, 10 ** 7, ONE, 25 * 10 ** 6, 3 * 10 ** 6, self.units(10 ** 12, False) or 1])

    def parse(self):
        if self.rng.random() < 0.5:
            text = text_of(self.units())
            if self.rng.random() < 0.5:  # as people write it
                text += "." if "." not in text else ""
                text += "0" * self.rng.randint(0, 9)
        else:
            text = "".join(self.rng.choice("0123456789.-+e, xé") for _ in range(self.rng.randint(0, 14)))
        if SHAPE.match(text):
            return ["parse", text], text_of(int(decimal.Decimal(text).scaleb(8)))
        return ["parse", text], "" if text == "" else "no"

    def add(self):
        a, b = self.raw(), self.raw()
        return ["add", "#%d" % a, "#%d" % b], answer_of(a + b)

    def mul(self):
        a, b = self.raw(), self.raw()
        return ["mul", "#%d" % a, "#%d" % b], answer_of(whole(Fraction(a * b, ONE), "down"))

    def round(self):
        value, step, rounding = self.raw(), self.step(), self.rng.choice(ROUNDINGS)
        result = whole(Fraction(value, step), rounding) * step
        if not fits(result):
            result = whole(Fraction(value, step), "down") * step
        return ["round", "#%d" % value, "#%d" % step, rounding], text_of(result)

    def scale(self):
        value, numerator = self.raw(), self.raw()
        denominator, step = abs(self.raw()) or 1, self.step()
        rounding = self.rng.choice(ROUNDINGS)
        steps = whole(Fraction(value * numerator, denominator * step), rounding)
        return (["scale"] + ["#%d" % each for each in (value, numerator, denominator, step)] + [rounding],
                answer_of(steps * step))

    def money(self):
        return self.rng.choice([self.rng.randint(1, 10 ** 9) * 10 ** 6, self.units(10 ** 15, False) or 1])

    def size(self):
        """A whole opening: 1 multiplier, 3 balance, 6 contract, 7 risk."""
        mode = self.rng.choice([1, 3, 3, 6, 7, 7])
        volume = self.rng.randint(1, 10 ** 5) * 10 ** 6 if self.rng.random() < 0.7 else self.units(10 ** 14, False) or 1
        multiplier = self.rng.choice([self.rng.randint(1, 10 ** 5) * 10 ** 4, self.units(10 ** 11, False) or 1])
        mine, masters = self.money(), self.money()
        pair = self.rng.choice(["EURUSD", "USDEUR"])
        bid = self.rng.randint(1, 2 * 10 ** 5) * 10 ** 3
        ask = bid + self.rng.randint(0, 50) * 10 ** 3
        step = self.rng.choice([10 ** 6, 10 ** 7, 10 ** 5, ONE, 1000, 1, 3 * 10 ** 6])
        rounding = self.rng.choice(["down", "nearest"])
        price = self.rng.randint(1, 2 * 10 ** 5) * 10 ** 3
        stop = max(price + self.rng.randint(-500, 500) * 10 ** 3, 10 ** 3)
        contract, masters_contract = (self.rng.choice([1, 10, 100, 1000, 100000, 3]) * ONE for _ in range(2))
        if pair == "EURUSD" and self.rng.random() < 0.1:
            price = stop  # no distance to risk
        question = ["size", str(mode), *("#%d" % each for each in (volume, multiplier, mine, masters)), pair,
                    "#%d" % bid, "#%d" % ask, "#%d" % step, rounding, "#%d" % price, "#%d" % stop,
                    "#%d" % contract, "#%d" % masters_contract]
        rate = Fraction(bid + ask, 2 * ONE) if pair == "EURUSD" else Fraction(2 * ONE, bid + ask)  # a euro in dollars
        wanted = Fraction(volume * multiplier, ONE)
        if mode == 3:
            wanted *= Fraction(mine, masters) / rate
        elif mode == 6:
            wanted *= Fraction(masters_contract, contract)
        elif mode == 7:
            if price == stop:
                return question, "REASON_NO_STOP_LOSS"
            wanted = Fraction(mine * multiplier, abs(price - stop)) * Fraction(ONE, contract) / rate
        units = whole(wanted / step, rounding) * step
        if not fits(units) or not fits(int(wanted)) or max(wanted.numerator, wanted.denominator) > UINT128_MAX:
            return question, "REASON_INTERNAL"
        return question, text_of(units) if units >= step else "REASON_BELOW_MIN"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("driver")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2 ** 32))
    parser.add_argument("--count", type=int, default=SHORT_COUNT)
    parser.add_argument("--long", action="store_true", help="%d questions" % LONG_COUNT)
    options = parser.parse_args()
    count = LONG_COUNT if options.long else options.count
    print("seed %d, %d questions" % (options.seed, count), flush=True)

    questions = Questions(random.Random(options.seed))
    kinds = [questions.parse, questions.add, questions.mul, questions.round, questions.scale, questions.size]
    asked = [kinds[index % len(kinds)]() for index in range(count)]
    lines = "\n".join("\t".join(question) for question, _ in asked) + "\n"
    driver = subprocess.run([options.driver], input=lines.encode(), stdout=subprocess.PIPE, check=False)
    answers = driver.stdout.decode().split("\n")[:-1]
    failed = 0
    for (question, expected), got in zip(asked, answers):
        if got != expected:
            failed += 1
            if failed <= 20:
                print("%s: expected \"%s\", got \"%s\"" % (" ".join(question), expected, got))
    if driver.returncode != 0 or len(answers) != count:
        failed += 1
        print("the driver ended with %d after %d answers" % (driver.returncode, len(answers)))
    print("%d passed, %d failed" % (min(count, len(answers)) - failed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
