# A tour of what one execution can hold. It runs like a notebook cell: .venv/bin/cellhouse run examples/tour.py
import math
import pathlib

import matplotlib.pyplot as plt
import pandas as pd
from tqdm import tqdm

print("Hello from a live Jupyter kernel.")

# Two figures: each becomes a rich output of its own.
angles = [step * math.pi / 50 for step in range(101)]
plt.figure(figsize=(5, 3))
plt.plot(angles, [math.sin(angle) for angle in angles], label="sine")
plt.plot(angles, [math.cos(angle) for angle in angles], label="cosine")
plt.legend()
plt.title("One turn")
plt.show()

dice = [first + second for first in range(1, 7) for second in range(1, 7)]
plt.figure(figsize=(5, 3))
plt.hist(dice, bins=range(2, 14), align="left", rwidth=0.8)
plt.title("Two dice, 36 throws")
plt.show()

# A progress bar rewrites its line; in the result only its last state is left.
primes = []
for candidate in tqdm(range(2, 20_000), desc="primes"):
    if all(candidate % prime for prime in primes if prime * prime <= candidate):
        primes.append(candidate)

# A table: HTML for people, text for everyone else.
table = pd.DataFrame({"below": [10, 100, 1_000, 10_000]})
table["primes"] = [sum(prime < limit for prime in primes) for limit in table["below"]]
table["share"] = (table["primes"] / table["below"]).round(3)
display(table)

# A file in the working directory is an artifact of this execution.
written = pathlib.Path("primes.csv")
written.write_text("\n".join(["prime", *map(str, primes)]) + "\n")
print(f"Wrote {written} with {len(primes)} primes.")

# The last expression is the result.
max(primes)
