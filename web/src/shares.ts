// Amounts over time that make up a whole, and the share that each has of it.
export interface Share {
  id: string;     // of its pattern: hatch.ts, style/ledger.css
  title: string;
  amounts: number[];  // of each period
}

export interface Shares {
  fromMs: number;
  widthMs: number;
  columns: Share[];  // from the lowest up, each with some amount
  sums: number[];    // of each period; 0: nothing is known of it
}

export function sharesOf(fromMs: number, widthMs: number, periods: number, all: Share[]): Shares {
  const columns = all.filter(({amounts}) => amounts.some((amount) => amount > 0));
  const sums = Array.from({length: periods}, (_, i) =>
    columns.reduce((sum, {amounts}) => sum + amounts[i]!, 0));
  return {fromMs, widthMs, columns, sums};
}

// The share that a column and those below it have of each period; null: nothing is known of it.
export function stacked({columns, sums}: Shares): (number | null)[][] {
  const below = sums.map(() => 0);
  return columns.map(({amounts}) => sums.map((sum, i) => {
    below[i]! += amounts[i]!;
    return sum > 0 ? Math.min(1, below[i]! / sum) : null;
  }));
}
