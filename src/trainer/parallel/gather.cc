#include "trainer/parallel/gather.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::trainer {

Result<std::vector<float>> GatherWhole(const ParameterTable& here, const ParameterTable& whole,
                                       Group& replica, std::span<const float> values) {
  CHECK(values.size() == here.floats() && whole.part().whole());
  std::vector<float> gathered(replica.rank() == 0 ? whole.floats() : 0);
  std::vector<float> sum;
  for (const Parameter& parameter : whole.parameters()) {
    // Each element comes from one rank and is zero on the others.
    sum.assign(parameter.count, 0.0F);
    for (const Parameter& own : here.parameters()) {
      if (own.name != parameter.name) continue;
      if (own.box.dimension < 0 && here.part().part > 0) break;  // the first part has it too
      for (const Stretch& stretch : Stretches(own)) {
        const auto from = values.subspan(own.offset + stretch.here, stretch.count);
        std::copy(from.begin(), from.end(), sum.begin() + static_cast<ptrdiff_t>(stretch.whole));
      }
    }
    RETURN_IF_ERROR(replica.Sum(std::span(sum)));
    if (!gathered.empty()) {
      std::copy(sum.begin(), sum.end(),
                gathered.begin() + static_cast<ptrdiff_t>(parameter.offset));
    }
  }
  return gathered;
}

}  // namespace longhaul::trainer
