#include "story/story_json.h"

#include "base/time.h"

namespace longhaul::story {
namespace {

using Json = nlohmann::ordered_json;

Json OrNull(const auto& value) { return value.has_value() ? Json(*value) : Json(); }

Json InstantJson(int64_t at_ns) {
  return at_ns == 0 ? Json() : Json(ToString(InstantFromNanoseconds(at_ns)));
}

Json CostsJson(const std::vector<CategorySeconds>& costs) {
  Json json = Json::object();
  for (const CategorySeconds& cost : costs) json[cost.category] = cost.seconds;
  return json;
}

Json MomentsJson(const std::vector<Moment>& moments, int64_t happened_at_ns) {
  Json json = Json::array();
  for (const Moment& moment : moments) {
    json.push_back({{"at", InstantJson(moment.at_ns)},
                    {"after_seconds", static_cast<double>(moment.at_ns - happened_at_ns) * 1e-9},
                    {"text", moment.text}});
  }
  return json;
}

Json FaultStoryJson(const FaultStory& fault) {
  return {
      {"number", fault.number},
      {"what", fault.what},
      {"class", fault.class_name},
      {"cause", fault.cause},
      {"node", fault.node},
      {"rank", fault.rank},
      {"injected", fault.injected},
      {"happened_at", InstantJson(fault.happened_at_ns)},
      {"after_seconds", fault.after_seconds},
      {"detection_seconds", fault.detection_seconds},
      {"detector", fault.detector},
      {"exit_code", OrNull(fault.exit_code)},
      {"signal", OrNull(fault.signal)},
      {"attempt", fault.attempt},
      {"last_step", fault.last_step},
      {"since_last_step_seconds", fault.since_last_step < 0 ? Json() : Json(fault.since_last_step)},
      {"observations", MomentsJson(fault.observations, fault.happened_at_ns)},
      {"output", fault.output},
      {"output_file", fault.output_file},
      {"actions", MomentsJson(fault.actions, fault.happened_at_ns)},
      {"restarted", fault.restarted},
      {"next_attempt", fault.next_attempt},
      {"from_step", fault.from_step},
      {"lost_steps", fault.lost_steps},
      {"over", fault.over},
      {"recovery_seconds", OrNull(fault.recovery_seconds)},
      {"cost_seconds", fault.cost_seconds},
      {"cost_by_category", CostsJson(fault.costs)}};
}

}  // namespace

Json StoryJson(const Story& story, std::optional<uint32_t> fault) {
  Json faults = Json::array();
  for (const FaultStory& each : story.faults) {
    if (!fault.has_value() || each.number == *fault) faults.push_back(FaultStoryJson(each));
  }
  Json causes = Json::array();
  for (const CauseRow& row : story.causes) {
    causes.push_back({{"class", row.class_name},
                      {"faults", row.faults},
                      {"injected", row.injected},
                      {"cost_seconds", row.cost_seconds}});
  }
  Json loss;
  if (story.largest_loss.has_value()) {
    loss = {{"category", story.largest_loss->category}, {"seconds", story.largest_loss->seconds}};
  }
  return {{"job", story.job_id},
          {"state", story.state},
          {"reason", story.reason},
          {"submitted_at", InstantJson(story.submitted_at_ns)},
          {"ended_at", InstantJson(story.ended_at_ns)},
          {"goodput", OrNull(story.goodput)},
          {"faults", faults},
          {"causes", causes},
          {"cost_seconds", story.cost_seconds},
          {"cost_by_category", CostsJson(story.costs)},
          {"categories", CostsJson(story.categories)},
          {"largest_loss", loss},
          {"warnings", MomentsJson(story.warnings, story.submitted_at_ns)},
          {"advice", story.advice},
          {"notes", story.notes}};
}

}  // namespace longhaul::story
