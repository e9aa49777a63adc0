#include "service/notify/hook_message.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/time.h"
#include "proto/json.h"

namespace longhaul::service {
namespace {

using spec::HookEvent;

constexpr size_t kLongestMessage = size_t{64} << 10;
constexpr size_t kLongestText = 1'000;

std::string StateWord(proto::JobState state) {
  std::string word = proto::JobState_Name(state);
  for (char& c : word) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return word;
}

bool IsLastState(proto::JobState state) {
  return state == proto::SUCCEEDED || state == proto::FAILED || state == proto::STOPPED;
}

// Of several lines the first and the last one, which of an error's are the most telling.
std::string InOneLine(const std::string& text) {
  const size_t first = text.find('\n');
  if (first == std::string::npos) return text.substr(0, kLongestText);
  const std::string_view whole = Trim(text);
  const size_t last = whole.rfind('\n');
  std::string line = text.substr(0, std::min(first, kLongestText / 2));
  if (last == std::string_view::npos) return line;
  return line + " ... " + std::string(whole.substr(last + 1, kLongestText / 2));
}

// Its end is a new step; of a command that reports no steps, the start of the new workers.
bool IsOver(const proto::Fault& fault) {
  return fault.new_step_at_ns() != 0 ||
         (fault.started_at_ns() != 0 && fault.first_step_at_ns() == 0 &&
          fault.lost_rank_seconds() > 0 && fault.from_step() == 0);
}

}  // namespace

std::vector<HookMessage> HookMessages::Take(const proto::Notification& notification) {
  std::vector<HookMessage> messages;
  const std::string& job = notification.job_id();
  switch (notification.kind_case()) {
    case proto::Notification::kState: {
      const proto::StateNotification& state = notification.state();
      const std::string text = job + " is " + StateWord(state.state()) +
                               (state.reason().empty() ? "" : ": " + InOneLine(state.reason()));
      Add(HookEvent::kState, notification, text, messages);
      if (!IsLastState(state.state())) break;
      Add(HookEvent::kEnd, notification, text, messages);
      ForgetJob(begun_, job);
      ForgetJob(over_, job);
      break;
    }
    case proto::Notification::kAttempt:
      Add(HookEvent::kAttempt, notification,
          job + ": attempt " + std::to_string(notification.attempt().attempt()) + " begins",
          messages);
      break;
    case proto::Notification::kFault:
      TakeFault(notification, messages);
      break;
    case proto::Notification::kMessage:
      if (notification.message().severity() == proto::MessageNotification::INFO) break;
      Add(HookEvent::kWarning, notification,
          (job.empty() ? "" : job + ": ") + InOneLine(notification.message().text()), messages);
      break;
    case proto::Notification::kNode:
      Add(HookEvent::kNode, notification,
          notification.node().name() +
              (notification.node().connected() ? " is connected" : " is not connected"),
          messages);
      break;
    default:
      break;
  }
  return messages;
}

void HookMessages::ForgetJob(std::set<FaultId>& faults, const std::string& job) {
  const auto first = faults.lower_bound({job, 0});
  auto last = first;
  while (last != faults.end() && last->first == job) ++last;
  faults.erase(first, last);
}

void HookMessages::TakeFault(const proto::Notification& notification,
                             std::vector<HookMessage>& messages) {
  const proto::Fault& fault = notification.fault();
  const FaultId id{notification.job_id(), fault.number()};
  const std::string name = notification.job_id() + ": fault " + std::to_string(fault.number());
  if (begun_.insert(id).second) {
    Add(HookEvent::kFault, notification, name + ": " + InOneLine(fault.what()), messages);
  }
  if (IsOver(fault) && over_.insert(id).second) {
    Add(HookEvent::kRecovered, notification, name + " is over: " + InOneLine(fault.action()),
        messages);
  }
}

void HookMessages::Add(HookEvent event, const proto::Notification& notification, std::string text,
                       std::vector<HookMessage>& messages) const {
  if (!wanted_.contains(event)) return;
  HookMessage& message = messages.emplace_back();
  message.event = event;
  message.job = notification.job_id();
  message.text = std::move(text);
  nlohmann::ordered_json json = {{"event", std::string(NameOf(event))},
                                 {"at", ToString(InstantFromNanoseconds(notification.at_ns()))},
                                 {"job", message.job},
                                 {"run_directory", run_directory_},
                                 {"text", message.text}};
  nlohmann::ordered_json whole = json;
  whole["data"] = proto::ToJson(notification);
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  message.json = whole.dump(-1, ' ', false, kReplace);
  if (message.json.size() > kLongestMessage) message.json = json.dump(-1, ' ', false, kReplace);
}

}  // namespace longhaul::service
