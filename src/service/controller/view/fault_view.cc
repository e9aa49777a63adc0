#include "service/controller/view/fault_view.h"

#include <utility>

#include "runtime/controller/controller.h"
#include "service/controller/view/rank_accelerators.h"
#include "service/controller/view/run_view.h"
#include "story/sentences.h"
#include "story/story_json.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

int64_t FaultMs(int64_t at_ns) { return at_ns / 1'000'000; }

Json StagesJson(const story::FaultStory& fault) {
  Json stages = Json::array();
  for (const story::FaultStage& stage : fault.stages) {
    stages.push_back({{"name", stage.name},
                      {"at_seconds", stage.at_seconds},
                      {"took_seconds", stage.took_seconds},
                      {"budget_seconds", stage.budget_seconds}});
  }
  return stages;
}

Json StacksJson(const story::FaultStory& fault) {
  Json stacks = Json::array();
  for (const story::WorkerStack& stack : fault.stacks) {
    stacks.push_back({{"rank", stack.rank}, {"node", stack.node}, {"calls", stack.calls}});
  }
  return stacks;
}

}  // namespace

Json FaultViewJson(const story::Story& story, const story::FaultStory& fault,
                   const proto::JobStatus& status, Instant now) {
  Json facts = story::StoryJson(story, fault.number);
  Json json = std::move(facts["faults"].at(0));
  const double accelerators = AcceleratorsOfRank(status);
  json.update({{"happened_at_ms", FaultMs(fault.happened_at_ns)},
               {"open", fault.open},
               {"stages", StagesJson(fault)},
               {"stacks", StacksJson(fault)},
               {"lost_rank_seconds", fault.lost_rank_seconds},
               {"lost_accelerator_seconds",
                accelerators > 0 ? Json(fault.lost_rank_seconds * accelerators) : Json()},
               {"when_text", story::WhenSentence(fault)},
               {"step_text", story::StepSentences(fault)},
               {"cost_text", story::CostSentences(fault)}});
  return {{"version", kViewVersion},
          {"now_ms", FaultMs(ToNanoseconds(now))},
          {"job", status.job().id()},
          {"job_is_over", runtime::IsTerminal(status.state())},
          {"faults_total", story.faults.size()},
          {"fault", std::move(json)},
          {"advice", story.advice},
          {"notes", story.notes}};
}

}  // namespace longhaul::service
