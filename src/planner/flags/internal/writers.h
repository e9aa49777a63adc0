// The writers that flags.h uses, one for each framework, and their shared code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/evaluation.h"
#include "planner/flags/flags.h"

namespace longhaul::planner::flags::internal {

// Options of a command, one per line, in the shell's syntax.
class Options {
 public:
  void Flag(std::string_view name);
  void Value(std::string_view name, std::string_view value);  // quoted where the shell needs it
  void Value(std::string_view name, uint64_t value);
  void List(std::string_view name, const std::vector<std::string>& values);
  void FlagIf(bool wanted, std::string_view name) {
    if (wanted) Flag(name);
  }

  const std::vector<std::string>& words() const { return words_; }
  // "  --a 1 \\\n  --b 2\n".
  std::string Lines() const;

 private:
  std::vector<std::string> words_;  // unquoted
  std::vector<std::string> lines_;
};

// The model's name for a comment: printable, one line.
std::string CommentName(const spec::Model& model);
uint64_t Nodes(const spec::DeviceCluster& cluster);
// Ranks that hold one copy of the states; all of data where it is not given.
uint32_t ShardGroup(const spec::Layout& layout);
// Whether this order would put the layout's groups at the same places.
bool SamePlaces(const spec::Layout& layout, const spec::PlacementOrder& order);
// Micro-batches of a replica in a step.
uint32_t MicroBatches(const spec::Training& training);

Status CheckMegatron(const Question& question);
Launch WriteMegatron(const Question& question);
// The options of pretrain_gpt.py alone.
Options MegatronOptions(const Question& question);
// CUDA_DEVICE_MAX_CONNECTIONS: streams that may reach the GPU at once. One keeps the order that
// overlapped tensor collectives require; sharded weights and an overlapped exchange of experts'
// tokens need more (arguments.py warns otherwise).
std::string MegatronConnections(const Question& question);

Status CheckDeepSpeed(const Question& question);
Launch WriteDeepSpeed(const Question& question);

Status CheckTorchtitan(const Question& question);
Launch WriteTorchtitan(const Question& question);

Status CheckLonghaul(const Question& question);
Launch WriteLonghaul(const Question& question);

}  // namespace longhaul::planner::flags::internal
