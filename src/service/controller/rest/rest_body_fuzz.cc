// Request bodies: whatever comes, an answer and no crash; what is accepted is within its limits.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "service/client/sse.h"
#include "service/controller/check/check_request.h"
#include "service/controller/plan/plan_request.h"
#include "service/controller/rest/changes/change_request.h"
#include "service/controller/rest/changes/what_if_request.h"
#include "service/controller/rest/reservation_request.h"
#include "service/controller/rest/tokens/token_request.h"
#include "service/controller/submission/submission_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto request = longhaul::service::ParseSubmissionRequest(body);
  if (request.ok()) {
    CHECK(request->name.size() <= 4096);
    CHECK(request->job.size() <= 8 * size + 64);  // an object may grow when printed
  } else {
    CHECK(!request.status().message().empty());
  }
  (void)longhaul::service::ParseReason(body).ok();
  const auto changes = longhaul::service::ParseChanges(body);
  if (changes.ok()) {
    CHECK(!changes->changes.empty());
  } else {
    CHECK(!changes.status().message().empty());
  }
  const auto what_if = longhaul::service::ParseWhatIf(body);
  if (what_if.ok()) {
    CHECK(!what_if->changes.empty() && what_if->horizon > longhaul::Duration(0));
  } else {
    CHECK(!what_if.status().message().empty());
  }
  const auto check = longhaul::service::ParseCheckRequest(body);
  if (check.ok()) {
    CHECK(check->size() <= 4096);
  } else {
    CHECK(!check.status().message().empty());
  }
  const auto plan = longhaul::service::ParsePlanRequest(body);
  if (plan.ok()) {
    CHECK(plan->devices > 0 && plan->model.empty() != plan->model_text.empty());
    for (const std::string& word : longhaul::service::PlannerArguments(*plan)) {
      CHECK(word.find('\0') == std::string::npos);
    }
  } else {
    CHECK(!plan.status().message().empty());
  }
  const auto now = longhaul::InstantFromNanoseconds(1'790'000'000'000'000'000);
  const auto reservation = longhaul::service::ParseReservation(body, now);
  if (reservation.ok()) {
    CHECK(!reservation->name().empty());
    CHECK(reservation->until_ns() > longhaul::ToNanoseconds(now));
  } else {
    CHECK(!reservation.status().message().empty());
  }
  const auto token = longhaul::service::ParseTokenRequest(body, now);
  if (token.ok()) {
    CHECK(!token->expires || *token->expires > now);
  } else {
    CHECK(!token.status().message().empty());
  }
  const auto join = longhaul::service::ParseJoinTokenRequest(body, now);
  if (join.ok()) {
    CHECK(join->expires > now);
  } else {
    CHECK(!join.status().message().empty());
  }
  longhaul::service::SseReader reader;
  (void)reader.Feed(body).ok();
  return 0;
}
