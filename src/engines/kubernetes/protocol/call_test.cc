#include "engines/kubernetes/protocol/call.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engines/kubernetes/protocol/response.h"

namespace longhaul::engines::kubernetes {
namespace {

TEST(Call, BindsWithTheUidAndTheAnnotations) {
  const Result<Call> call = BindCall({"ns", "p"}, "u-1", "n1", {{"longhaul.dev/rank", "a\"b\n"}});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->method, "POST");
  EXPECT_EQ(call->target, "/api/v1/namespaces/ns/pods/p/binding");
  EXPECT_EQ(call->body, R"({"apiVersion":"v1","kind":"Binding","metadata":{"name":"p","uid":"u-1",)"
                        R"("annotations":{"longhaul.dev/rank":"a\"b\n"}},)"
                        R"("target":{"apiVersion":"v1","kind":"Node","name":"n1"}})");
  EXPECT_EQ(call->traffic, TrafficClass::kBind);
  EXPECT_EQ(call->Text(), "create pods/binding p in namespace ns");
}

TEST(Call, DescribesEachVerb) {
  const Resource jobs{"longhaul.dev", "v1", "longhauljobs", true};
  const struct {
    Result<Call> call;
    const char* request;
    const char* content_type;
    const char* body;
    TrafficClass traffic;
  } kRows[] = {
      {GetCall(Nodes(), {"", "n1"}), "GET /api/v1/nodes/n1", "", "", TrafficClass::kStatus},
      {ListCall(Pods(), ""), "GET /api/v1/pods", "", "", TrafficClass::kStatus},
      {ListCall(jobs, "ns"), "GET /apis/longhaul.dev/v1/namespaces/ns/longhauljobs", "", "",
       TrafficClass::kStatus},
      {CreateCall(Leases(), "ns", "{}"), "POST /apis/coordination.k8s.io/v1/namespaces/ns/leases",
       "application/json", "{}", TrafficClass::kLease},
      {PatchCall(Pods(), {"ns", "p"}, "status", PatchKind::kStrategicMerge, "{}"),
       "PATCH /api/v1/namespaces/ns/pods/p/status", "application/strategic-merge-patch+json", "{}",
       TrafficClass::kStatus},
      {PatchCall(Pods(), {"ns", "p"}, "", PatchKind::kJson, "[]"),
       "PATCH /api/v1/namespaces/ns/pods/p", "application/json-patch+json", "[]",
       TrafficClass::kStatus},
      {PatchCall(Nodes(), {"", "n"}, "", PatchKind::kMerge, "{}"), "PATCH /api/v1/nodes/n",
       "application/merge-patch+json", "{}", TrafficClass::kStatus},
      {ApplyCall(jobs, {"ns", "j"}, "status", "{}", true),
       "PATCH /apis/longhaul.dev/v1/namespaces/ns/longhauljobs/j/status?fieldManager=longhaul&"
       "force=true",
       "application/apply-patch+yaml", "{}", TrafficClass::kStatus},
      {DeleteCall(Pods(), {"ns", "p"}, "u", 5), "DELETE /api/v1/namespaces/ns/pods/p",
       "application/json",
       R"({"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":5,)"
       R"("preconditions":{"uid":"u"}})",
       TrafficClass::kBind},
      {EvictCall({"ns", "p"}, "u", {}), "POST /api/v1/namespaces/ns/pods/p/eviction",
       "application/json",
       R"({"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p","namespace":"ns"},)"
       R"("deleteOptions":{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u"}}})",
       TrafficClass::kBind},
  };
  for (const auto& row : kRows) {
    ASSERT_TRUE(row.call.ok()) << row.request << ": " << row.call.status();
    EXPECT_EQ(row.call->method + " " + row.call->target, row.request);
    EXPECT_EQ(row.call->content_type, row.content_type) << row.request;
    EXPECT_EQ(row.call->body, row.body) << row.request;
    EXPECT_EQ(row.call->traffic, row.traffic) << row.request;
  }
}

TEST(Call, RefusesNamesThatWouldChangeThePath) {
  const std::vector<std::string> names = {
      "", ".", "..", "a/b", "a?b", "a%2Fb", "a b", "a#b", "a\n", "\xc3\xbc", std::string(254, 'a')};
  for (const std::string& name : names) {
    EXPECT_EQ(GetCall(Pods(), {"ns", name}).status().code(), Code::kInvalidArgument) << name;
    EXPECT_EQ(GetCall(Pods(), {name, "p"}).status().code(), Code::kInvalidArgument) << name;
    EXPECT_FALSE(BindCall({"ns", "p"}, "u", name, {}).ok()) << name;
    EXPECT_FALSE(DeleteCall(Pods(), {"ns", "p"}, name, {}).ok()) << name;
  }
  EXPECT_FALSE(BindCall({"ns", "p"}, "u", "n", {{"a", "\xff"}}).ok());
}

Verdict JudgeStatus(int http_status, const ApiStatus& details, const std::string& header = "") {
  return Judge(*BindCall({"ns", "p"}, "u", "n", {}), http_status, header, details);
}

TEST(Verdict, FollowsFromTheStatusAndTheReason) {
  const struct {
    int status;
    const char* reason;
    const char* cause;
    Outcome outcome;
    Code code;
  } kRows[] = {
      {200, "", "", Outcome::kDone, Code::kOk},
      {201, "", "", Outcome::kDone, Code::kOk},
      {400, "BadRequest", "", Outcome::kInvalid, Code::kInvalidArgument},
      {401, "Unauthorized", "", Outcome::kUnauthenticated, Code::kUnauthenticated},
      {403, "Forbidden", "", Outcome::kForbidden, Code::kPermissionDenied},
      {404, "NotFound", "", Outcome::kNotFound, Code::kNotFound},
      {409, "AlreadyExists", "", Outcome::kAlreadyExists, Code::kAlreadyExists},
      {409, "Conflict", "", Outcome::kConflict, Code::kAborted},
      {409, "Conflict", "FieldManagerConflict", Outcome::kApplyConflict, Code::kAborted},
      {410, "Expired", "", Outcome::kGone, Code::kOutOfRange},
      {422, "Invalid", "", Outcome::kInvalid, Code::kInvalidArgument},
      {429, "TooManyRequests", "", Outcome::kRetry, Code::kUnavailable},
      {500, "InternalError", "", Outcome::kFailed, Code::kInternal},
      {503, "", "", Outcome::kRetry, Code::kUnavailable},
      {302, "", "", Outcome::kFailed, Code::kInternal},
  };
  for (const auto& row : kRows) {
    ApiStatus details;
    details.reason = row.reason;
    if (*row.cause != '\0') details.causes.push_back({row.cause, ".data", "m"});
    const Verdict verdict = JudgeStatus(row.status, details);
    EXPECT_EQ(verdict.outcome, row.outcome) << row.status << " " << row.reason;
    EXPECT_EQ(verdict.status.code(), row.code) << row.status << " " << row.reason;
  }
}

TEST(Verdict, NamesTheMissingRule) {
  EXPECT_EQ(JudgeStatus(403, {}).status.message(),
            "create pods/binding p in namespace ns: HTTP 403; the account lacks the rule "
            "{apiGroups: [\"\"], resources: [\"pods/binding\"], verbs: [\"create\"]} in namespace "
            "ns");
}

TEST(Verdict, NamesNoRuleWhereAQuotaRefuses) {
  ApiStatus details;
  details.message = "pods \"p\" is forbidden: exceeded quota: q";
  EXPECT_EQ(JudgeStatus(403, details).status.message().find("lacks the rule"), std::string::npos);
  details.message = "pods \"p\" is forbidden: User \"x\" cannot create resource \"pods\"";
  EXPECT_NE(JudgeStatus(403, details).status.message().find("lacks the rule"), std::string::npos);
}

TEST(Verdict, TellsABudgetFromALimit) {
  ApiStatus budget;
  budget.causes.push_back({"DisruptionBudget", "", ""});
  const Call evict = *EvictCall({"ns", "p"}, "u", {});
  EXPECT_EQ(Judge(evict, 429, "", budget).outcome, Outcome::kDisruptionBudget);
  EXPECT_EQ(Judge(evict, 429, "", {}).outcome, Outcome::kRetry);
}

TEST(Verdict, KeepsRetryAfterWithinALimit) {
  ApiStatus details;
  details.retry_after_seconds = 7;
  EXPECT_EQ(JudgeStatus(500, details).outcome, Outcome::kRetry);
  EXPECT_EQ(JudgeStatus(500, details).retry_after, std::chrono::seconds(7));
  EXPECT_EQ(JudgeStatus(429, details, " 2 ").retry_after, std::chrono::seconds(2));
  EXPECT_EQ(JudgeStatus(429, {}, "99999999999999999999").retry_after, std::nullopt);
  EXPECT_EQ(JudgeStatus(429, {}, "999999999999").retry_after, kLongestRetryAfter);
  EXPECT_EQ(JudgeStatus(429, {}, "-5").retry_after, std::nullopt);
  EXPECT_EQ(JudgeStatus(429, {}, "").retry_after, std::nullopt);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
