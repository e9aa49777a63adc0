#include "story/run_totals.h"

#include "proto/state_name.h"
#include "story/ledger_rows.h"

namespace longhaul::story {

RunTotals TotalsOf(const proto::JobStatus& status) {
  RunTotals totals;
  totals.state = std::string(StateName(status.state()));
  totals.reason = status.reason();
  totals.goodput = status.ledger().goodput();
  totals.ranks = MeanRanks(status);
  for (const CategoryRow& row : CategoriesOf(status.ledger(), totals.ranks)) {
    totals.categories.push_back({row.name, row.seconds});
  }
  totals.snapshots = status.snapshots();
  totals.interval_steps = status.snapshot_interval_steps();
  return totals;
}

}  // namespace longhaul::story
