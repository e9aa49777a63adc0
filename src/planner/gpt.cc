#include "planner/gpt.h"

namespace longhaul::planner {

int64_t GptParameters(const spec::ModelSpec& model) {
  const int64_t hidden = model.hidden;
  const int64_t block = 12 * hidden * hidden + 13 * hidden;
  return 2 * int64_t{model.vocabulary} * hidden + int64_t{model.sequence} * hidden +
         int64_t{model.layers} * block + 2 * hidden;
}

Flops GptStepFlops(const spec::ModelSpec& model, uint64_t sequences) {
  const double hidden = model.hidden;
  const double layers = model.layers;
  const double sequence = model.sequence;
  const double products = 2 * (12 * layers * hidden * hidden + model.vocabulary * hidden);
  const double attention = 2 * layers * sequence * hidden;
  const double tokens = sequence * static_cast<double>(sequences);
  return Flops(3 * tokens * (products + attention));
}

}  // namespace longhaul::planner
