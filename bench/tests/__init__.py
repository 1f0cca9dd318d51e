"""Tests of the harness: python3 -m unittest discover -s bench/tests -t bench"""
