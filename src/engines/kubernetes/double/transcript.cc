#include "engines/kubernetes/double/transcript.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 8> kTimes = {
    "creationTimestamp", "deletionTimestamp", "lastTransitionTime", "lastHeartbeatTime",
    "acquireTime",       "renewTime",         "lastProbeTime",      "startTime"};

bool IsTime(std::string_view key) {
  return std::find(kTimes.begin(), kTimes.end(), key) != kTimes.end();
}

// Whether a uid begins at this place: 8-4-4-4-12 hexadecimal digits.
bool IsUid(std::string_view text) {
  constexpr std::string_view kShape = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  if (text.size() < kShape.size()) return false;
  for (size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = std::string_view("0123456789abcdef").find(text[i]) != text.npos;
    if (kShape[i] == 'x' ? !digit : text[i] != '-') return false;
  }
  return true;
}

std::string WithoutUids(std::string_view text) {
  constexpr size_t kUidCharacters = 36;
  std::string result;
  while (!text.empty()) {
    const bool uid = IsUid(text);
    result += uid ? std::string_view("UID") : text.substr(0, 1);
    text.remove_prefix(uid ? kUidCharacters : 1);
  }
  return result;
}

void Normalise(Json& value) {
  if (value.is_object()) value.erase("managedFields");
  if (!value.is_structured()) return;
  for (auto& [key, field] : value.items()) {
    const bool text = value.is_object() && field.is_string();
    if (text && key == "uid") {
      field = "UID";
    } else if (text && key == "resourceVersion") {
      field = "VERSION";
    } else if (text && key == "continue" && field != "") {
      field = "TOKEN";
    } else if (text && IsTime(key)) {
      field = "TIME";
    } else {
      Normalise(field);
    }
  }
}

// Runs of three and more digits, which are versions.
std::string WithoutLongNumbers(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  std::string result;
  while (!text.empty()) {
    const size_t length = std::min(text.find_first_not_of(kDigits), text.size());
    if (length >= 3) {
      result += "NUMBER";
    } else {
      result += text.substr(0, std::max<size_t>(length, 1));
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return result;
}

// A message without uids, versions, and the dump of Go structures that follows some of them.
std::string Message(const std::string& text) {
  return WithoutLongNumbers(WithoutUids(text.substr(0, text.find("\n@@"))));
}

// Messages of Status objects, also within events.
void NormaliseMessages(Json& value) {
  if (!value.is_structured()) return;
  for (auto& [key, field] : value.items()) {
    if (value.is_object() && key == "message" && field.is_string()) {
      field = Message(field.get<std::string>());
    } else {
      NormaliseMessages(field);
    }
  }
}

}  // namespace

std::string Transcript::Normalised(std::string_view json) {
  Json value = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return std::string(Trim(json));
  Normalise(value);
  NormaliseMessages(value);
  return value.dump(1);
}

void Transcript::Add(std::string_view label, std::string_view method, std::string_view target,
                     int status, std::string_view body) {
  std::string bodies;
  for (const std::string_view line : Split(body, '\n')) {
    if (!line.empty()) bodies += Normalised(line) + "\n";
  }
  std::string where(target);
  // A version in the target differs from run to run, unless the script invented it.
  constexpr std::string_view kVersion = "resourceVersion=";
  if (const size_t at = where.find(kVersion); at != where.npos) {
    const size_t end = std::min(where.find('&', at), where.size());
    if (end - at > kVersion.size() + 1) where.replace(at, end - at, "resourceVersion=VERSION");
  }
  if (const size_t at = where.find("continue="); at != where.npos) where.resize(at + 9);
  text_ += "== " + std::string(label) + "\n" + std::string(method) + " " + where + "\n" +
           std::to_string(status) + "\n" + bodies;
}

void Transcript::AddLine(std::string_view line) { text_ += std::string(line) + "\n"; }

}  // namespace longhaul::engines::kubernetes
