// histogram.mjs - sums of the service's histograms, and percentiles of the sums. Used by the bridge and by the page.
//
// A histogram on the wire is sparse: upper bounds and counts, with the same possible bounds for ever. So two of them
// are added bucket by bucket, while two percentiles cannot be added at all.

/** Rows of the heatmap: so many to a decade, from 1 microsecond to 10 seconds; what is beyond goes to the ends. */
export const ROWS_PER_DECADE = 6;
export const ROW_FIRST_NS = 1e3;
export const ROWS = 7 * ROWS_PER_DECADE;

export const rowOf = (ns) =>
  Math.min(ROWS - 1, Math.max(0, Math.floor(Math.log10(Math.max(ns, 1) / ROW_FIRST_NS) * ROWS_PER_DECADE)));
export const rowLower = (row) => ROW_FIRST_NS * 10 ** (row / ROWS_PER_DECADE);

export class Sum {
  count = 0;
  max_ns = 0;
  #buckets = new Map(); // upper bound -> count

  /** @param {{count: number, max_ns: number, bucket_upper_ns: number[], bucket_count: number[]} | null} histogram */
  add(histogram) {
    if (!histogram) return this;
    this.count += histogram.count;
    this.max_ns = Math.max(this.max_ns, histogram.max_ns);
    histogram.bucket_upper_ns.forEach((upper, i) => this.#put(upper, histogram.bucket_count[i]));
    return this;
  }

  /** One value, kept as the bound of a bucket at most 2 % wide, so that a long run stays small. */
  addValue(ns) {
    this.count++;
    this.max_ns = Math.max(this.max_ns, ns);
    this.#put(ns <= 0 ? 0 : Math.round(1.02 ** Math.ceil(Math.log(ns) / Math.log(1.02))), 1);
  }

  #put(upper, count) { this.#buckets.set(upper, (this.#buckets.get(upper) ?? 0) + count); }

  /** The bound of the bucket that the share falls into, never above the largest value seen. */
  percentile(share) {
    let left = Math.ceil(this.count * share);
    for (const [upper, count] of [...this.#buckets].sort(([a], [b]) => a - b)) {
      left -= count;
      if (left <= 0) return Math.min(upper, this.max_ns);
    }
    return this.max_ns;
  }

  figures() {
    return { count: this.count, p50: this.percentile(0.5), p95: this.percentile(0.95), p99: this.percentile(0.99),
             max: this.max_ns };
  }

  /** [row, count] of the heatmap, only those with something in them. */
  rows() {
    const rows = new Map();
    for (const [upper, count] of this.#buckets) rows.set(rowOf(upper), (rows.get(rowOf(upper)) ?? 0) + count);
    return [...rows].sort(([a], [b]) => a - b);
  }
}
