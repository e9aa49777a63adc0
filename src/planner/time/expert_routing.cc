#include "planner/time/expert_routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace longhaul::planner {
namespace {

// Chance that none of `taken` distinct draws out of `all` is among `marked` of them.
double MissChance(double all, double marked, uint32_t taken) {
  double chance = 1;
  for (uint32_t i = 0; i < taken && chance > 0; ++i) {
    chance *= std::max(0.0, all - marked - i) / std::max(1.0, all - i);
  }
  return chance;
}

// Ways to choose `taken` of `all`, as a logarithm.
// A logarithm, since the counts themselves can exceed a double.
double LogWays(double all, double taken) {
  double sum = 0;
  for (double i = 1; i <= taken; ++i) sum += std::log((all - taken + i) / i);
  return sum;
}

// Chance that a token visits a place with `held` experts.
// All choices are taken as equally likely, as a balanced router makes them. With groups, a token
// first chooses groups and then experts within these; the chance that j of the place's own groups
// are among the chosen ones is hypergeometric.
double VisitChance(const spec::Experts& experts, double held) {
  const double groups = experts.groups;
  const double chosen = experts.groups_top_k;
  const double size = experts.count / groups;
  const double open = chosen * size;  // experts that a token can choose from
  if (held <= size) return chosen / groups * (1 - MissChance(open, held, experts.top_k));
  // The place has several groups, some of which are chosen.
  const double own = std::min(groups, std::round(held / size));
  double chance = 0;
  for (double j = std::max(0.0, chosen - (groups - own)); j <= std::min(own, chosen); ++j) {
    const double ways =
        LogWays(own, j) + LogWays(groups - own, chosen - j) - LogWays(groups, chosen);
    chance += std::exp(ways) * (1 - MissChance(open, j * size, experts.top_k));
  }
  return chance;
}

// A token's experts are top_k in sequence, and the next token goes on behind them, modulo the
// number of experts. The starts repeat after count / gcd tokens, so the mean over one period is
// exact.
double ConsecutivePlaces(const spec::Experts& experts, double held) {
  const uint32_t starts = experts.count / std::gcd(experts.count, experts.top_k);
  double sum = 0;
  for (uint32_t t = 0; t < starts; ++t) {
    const double first = static_cast<double>(uint64_t{t} * experts.top_k % experts.count);
    sum += std::floor((first + experts.top_k - 1) / held) - std::floor(first / held) + 1;
  }
  return sum / starts;
}

}  // namespace

double PlacesOfToken(const spec::Experts& experts, Routing routing, double places) {
  CHECK(places >= 1);
  const double held = std::max(1.0, experts.count / places);
  if (routing == Routing::kConsecutive) {
    return std::min(places, ConsecutivePlaces(experts, held));
  }
  return places * VisitChance(experts, held);
}

}  // namespace longhaul::planner
