#!/bin/bash
echo "$PLACE"
awk '{ sum += $1 } END { print sum }' /root/numbers.txt > /root/sum.txt
