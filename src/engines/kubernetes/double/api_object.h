// The resource, the defaults and the checks of each kind that the double of the API server has.
//
// Only what Longhaul uses, as the real server (1.37) does it; testdata/transcript.txt is the
// record.
#pragma once

#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "engines/kubernetes/protocol/call.h"

namespace longhaul::engines::kubernetes {

using Json = nlohmann::json;

struct ResourceInfo {
  Resource resource;
  std::string kind;
  bool has_generation = false;
};

// The resource at a group and version; null when there is none.
const ResourceInfo* FindResource(std::string_view group, std::string_view version,
                                 std::string_view plural);

// A refusal, as the body of a response. `details` may be null.
struct Refusal {
  int code = 400;
  std::string reason;
  std::string message;
  Json details;
};
Json StatusJson(const Refusal& refusal);
Json SuccessJson(int code);

Refusal NotFoundRefusal(const ResourceInfo& info, const std::string& name);
Refusal AlreadyExistsRefusal(const ResourceInfo& info, const std::string& name);
Refusal ConflictRefusal(const std::string& kind, const std::string& name, const std::string& why);
Refusal InvalidRefusal(const ResourceInfo& info, const std::string& name, const std::string& field,
                       const std::string& reason, const std::string& why);

// Fills in what the server fills in for a new or changed object: defaults and canonical quantities.
void SetDefaults(const ResourceInfo& info, Json& object, const std::string& now);
// The refusal of a new object, or of the change of one.
std::optional<Refusal> CheckNew(const ResourceInfo& info, const Json& object);
std::optional<Refusal> CheckChange(const ResourceInfo& info, const Json& before, const Json& after);

// The condition of this type in status.conditions is replaced, or added.
void SetCondition(Json& object, Json condition);

// The text that lies under these keys; empty where there is none. Without exceptions, which
// Json::value throws within: the histories ask millions of times.
std::string TextAt(const Json& object, std::initializer_list<std::string_view> keys);

// Whether an object matches comma-separated selectors, such as "a=b,!c" and
// "status.phase!=Failed".
bool MatchesLabels(const Json& object, std::string_view selector);
bool MatchesFields(const Json& object, std::string_view selector);

}  // namespace longhaul::engines::kubernetes
