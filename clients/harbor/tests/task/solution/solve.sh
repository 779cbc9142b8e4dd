#!/bin/bash
echo "$PLACE"
awk '{ sum += $1 } END { print sum }' numbers.txt > sum.txt
