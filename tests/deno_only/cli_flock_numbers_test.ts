/** Numbers as flock(1) reads them. What is expected was seen in flock(1) 2.38.1; sizes are of strutils(3) in 2.42. */
import { assertEquals } from "@std/assert";
import { integer, seconds, size } from "../../src/cli/flock/numbers.ts";
import { test } from "../support/harness.ts";

type Expected = Record<string, number | string>;

test("integer() takes what strtoimax(3) takes, in 32 bits", () => {
  const expected: Expected = { "9": 9, " \t9": 9, "+9": 9, "-9": -9, "007": 7, "2147483647": 2147483647 };
  for (const text of ["", " ", "-", "9 ", "9x", "0x10", "1.5", "abc", "1e3"]) expected[text] = "invalid";
  for (const text of ["2147483648", "-2147483649", "99999999999999999999"]) expected[text] = "range";
  for (const [text, number] of Object.entries(expected)) assertEquals([text, integer(text)], [text, number]);
});

test("seconds() takes what strtold(3) takes", () => {
  const expected: Expected = { "5": 5, " .5": .5, "5.": 5, "1e0": 1, "1E+1": 10, "0x1": 1, "0x.8p1": 1, "-0x10": -16 };
  Object.assign(expected, { "inf": Infinity, "-INFINITY": -Infinity, "1e400": Infinity, "0e9999": 0, "-0.5": -.5 });
  for (const text of ["", ".", "1 ", "1s", "1,5", "0x", "1e", "e1", "--1", "abc", "infinit"]) {
    expected[text] = "invalid";
  }
  for (const text of ["1e5000", "1e-5000", "-1e5000"]) expected[text] = "range";
  for (const [text, number] of Object.entries(expected)) assertEquals([text, seconds(text)], [text, number]);
  assertEquals([seconds("nan"), seconds("-NaN(x)")], [NaN, NaN]);
});

test("size() takes what util-linux's strtosize takes", () => {
  const expected: Expected = { "0": 0, "4096": 4096, "0x10": 16, "1K": 1024, "1k": 1024, "1KiB": 1024, "2KB": 2000 };
  Object.assign(expected, { "1.5K": 1536, "1M": 1 << 20, "1G": 1 << 30 });
  for (const text of ["", "-1", "x", "1.5", "1X", "1 K", "K"]) expected[text] = "invalid";
  for (const text of ["99999999999999999999", "1Y"]) expected[text] = "range";
  for (const [text, number] of Object.entries(expected)) assertEquals([text, size(text)], [text, number]);
});
