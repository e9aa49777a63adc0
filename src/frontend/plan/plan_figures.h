// Formats figures of a plan for people; shared by the tables and the page.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "planner/search/plan.h"

namespace longhaul::frontend {

struct StepPart {
  std::string_view name;
  std::string_view color;  // of the page
  Seconds planner::StepBreakdown::*member;
};
inline constexpr size_t kStepParts = 13;
const std::array<StepPart, kStepParts>& StepParts();

struct MemoryPart {
  std::string_view name;
  Bytes planner::MemoryBreakdown::*member;
};
inline constexpr size_t kMemoryParts = 9;
const std::array<MemoryPart, kMemoryParts>& MemoryParts();

// "tp 8 sp . pp 16 x 8 . dp 128 . micro 1 . zero 1 . recompute mlp", the parts that differ from 1.
std::string LayoutLine(const spec::Training& training);
std::string GiBText(double bytes, int digits = 1);
std::string DollarsText(double dollars);
// "no layout is better by more than 1.20 %", of an outcome's gap.
std::string GapText(double gap);
std::string DaysText(double days);
std::string ModelLine(const planner::search::Plan& plan);    // name, parameters
std::string ClusterLine(const planner::search::Plan& plan);  // devices, network, batch
std::string FrameworksText(const planner::search::Proposal& proposal);
// "5.41 s, 4.98 to 5.88".
std::string BandText(const planner::search::Proposal& proposal);

struct NamedBytes {
  std::string name;
  double bytes = 0;
};
// The tensors that one layer keeps of one micro-batch, largest first; `experts` selects a layer
// with experts or a dense one.
std::vector<NamedBytes> LayerTensors(const spec::Model& model, const spec::Training& training,
                                     bool experts);

}  // namespace longhaul::frontend
