#include "story/ledger_rows.h"

#include <algorithm>
#include <array>

namespace longhaul::story {
namespace {

struct CategoryName {
  proto::Category category;
  const char* name;
  const char* meaning;
};

constexpr std::array kCategories = {
    CategoryName{proto::PRODUCTIVE, "productive", "steps that count"},
    CategoryName{proto::QUEUE, "queue", "waited for nodes (outside goodput)"},
    CategoryName{proto::START_UP_TIME, "start-up", "processes begin, import, set up their device"},
    CategoryName{proto::RENDEZVOUS_TIME, "rendezvous", "join the store, build process groups"},
    CategoryName{proto::RESTORE_TIME, "restore", "read the state back, or initialise it"},
    CategoryName{proto::DATA_STALL, "data stall", "steps waited for input"},
    CategoryName{proto::STALL, "stall", "steps that took longer than such steps do"},
    CategoryName{proto::SNAPSHOT, "snapshot", "stopped for a copy of the state"},
    CategoryName{proto::EVALUATION, "evaluation", "held-out text"},
    CategoryName{proto::LOST_WORK, "lost work", "steps thrown away by a fault"},
    CategoryName{proto::DETECT, "detect", "from a fault to its event in the log"},
    CategoryName{proto::DIAGNOSE, "diagnose", "from the event to the decision"},
    CategoryName{proto::REPAIR, "repair", "from the decision to new processes"},
    CategoryName{proto::FINISH, "finish", "last evaluation, sample, last checkpoint"},
    CategoryName{proto::UNREPORTED, "unreported", "workers run, but report no steps"},
    CategoryName{proto::OTHER, "other", "none of the above"},
};

}  // namespace

std::string_view NameOfCategory(proto::Category category) {
  for (const CategoryName& known : kCategories) {
    if (known.category == category) return known.name;
  }
  return "other";
}

std::vector<CategoryRow> CategoriesOf(const proto::Ledger& ledger, double ranks) {
  std::vector<CategoryRow> rows;
  double sum = 0;
  for (const CategoryName& known : kCategories) {
    CategoryRow row{known.name, known.meaning, 0, 0};
    for (const proto::CategoryTime& time : ledger.categories()) {
      if (time.category() == known.category) row.seconds += time.rank_seconds() / ranks;
    }
    sum += row.seconds;
    if (row.seconds > 0) rows.push_back(row);
  }
  for (CategoryRow& row : rows) row.share = row.seconds / sum;
  std::stable_sort(rows.begin(), rows.end(), [](const CategoryRow& a, const CategoryRow& b) {
    const bool a_first = a.name == "productive";
    const bool b_first = b.name == "productive";
    return a_first != b_first ? a_first : a.seconds > b.seconds;
  });
  return rows;
}

double MeanRanks(const proto::JobStatus& status) {
  const double processes = std::max(1u, status.job().processes_per_node());
  const double planned = std::max(1u, status.job().nodes()) * processes;
  const proto::Ledger& ledger = status.ledger();
  if (status.job().maximum_nodes() == 0 || ledger.wall_seconds() <= 0) return planned;
  const bool all =
      status.preemptions() == 0 && status.sizes_size() == static_cast<int>(status.resizes()) + 1;
  if (!all) return std::max(1.0, ledger.rank_seconds() / ledger.wall_seconds());
  double sum = 0;
  double ranks = planned;  // while it waits for its first nodes
  int64_t at_ns = status.submitted_at_ns();
  for (const proto::SizeChange& change : status.sizes()) {
    sum += ranks * static_cast<double>(change.at_ns() - at_ns) * 1e-9;
    at_ns = change.at_ns();
    ranks = change.nodes() * processes;
  }
  const double passed = static_cast<double>(at_ns - status.submitted_at_ns()) * 1e-9;
  sum += ranks * std::max(0.0, ledger.wall_seconds() - passed);
  return sum / ledger.wall_seconds();
}

}  // namespace longhaul::story
