// The ledger of a job as seconds of the mean rank, so that the categories add up to the elapsed
// time. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proto/status.pb.h"

namespace longhaul::story {

// The name of a category in all output: "lost work".
std::string_view NameOfCategory(proto::Category category);

struct CategoryRow {
  std::string name;     // "snapshot"
  std::string meaning;  // "stopped for a copy of the state"
  double seconds = 0;
  double share = 0;  // of the ledger's sum
};

// The categories that have time: "productive" first, then the largest. Requires ranks > 0.
std::vector<CategoryRow> CategoriesOf(const proto::Ledger& ledger, double ranks);

// The mean number of ranks over the time of the job, by its changes of size: independent of the
// ledger's sums. Where the sizes are incomplete, the ledger's own mean.
double MeanRanks(const proto::JobStatus& status);

}  // namespace longhaul::story
