#include "trainer/parallel/state_boxes.h"

#include <cstddef>
#include <string>
#include <utility>

#include "base/check.h"

namespace longhaul::trainer {
namespace {

// Appends what lies here of one parameter's values.
void AddBoxes(const Parameter& parameter, const std::string& name, std::span<float> values,
              std::vector<StateTensor>& state) {
  const Box& box = parameter.box;
  if (box.dimension < 0) {
    state.push_back({name, values, parameter.shape});
    return;
  }
  const auto cut = static_cast<size_t>(box.dimension);
  const auto groups = static_cast<size_t>(box.groups);
  CHECK(groups == 1 || cut == 0);  // groups of rows follow each other
  std::vector<int64_t> shape = parameter.shape;
  shape[cut] /= box.groups;
  // A box must be contiguous in the whole tensor. A matrix of several groups of rows has a slice of
  // each group here, so it becomes one box per group: it begins where the group begins in the whole
  // tensor, plus the begin of the cut within a group.
  for (size_t group = 0; group < groups; ++group) {
    StatePart part{name, box.whole, std::vector<int64_t>(box.whole.size())};
    part.offset[cut] = box.whole[cut] / box.groups * static_cast<int64_t>(group) + box.cut.begin;
    const size_t count = values.size() / groups;
    state.push_back({groups == 1 ? name : name + ".part" + std::to_string(group),
                     values.subspan(group * count, count), shape, std::move(part)});
  }
}

// Appends all parameters of one buffer.
void AddBuffer(const ParameterTable& table, const std::string& prefix, std::span<float> values,
               std::vector<StateTensor>& state) {
  CHECK(values.size() == table.floats());
  for (const Parameter& parameter : table.parameters()) {
    AddBoxes(parameter, prefix + parameter.name, values.subspan(parameter.offset, parameter.count),
             state);
  }
}

}  // namespace

std::vector<StateTensor> WeightBoxes(const ParameterTable& table, std::span<float> weights) {
  std::vector<StateTensor> state;
  AddBuffer(table, "", weights, state);
  return state;
}

std::vector<StateTensor> StateBoxes(const ParameterTable& table, const StateBuffers& buffers) {
  std::vector<StateTensor> state = WeightBoxes(table, buffers.weights);
  AddBuffer(table, "optimizer.first_moment.", buffers.first_moments, state);
  AddBuffer(table, "optimizer.second_moment.", buffers.second_moments, state);
  return state;
}

}  // namespace longhaul::trainer
