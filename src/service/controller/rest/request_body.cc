#include "service/controller/rest/request_body.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace longhaul::service {

using Json = nlohmann::ordered_json;

namespace {

constexpr int kDeepest = 64;  // printing a document is recursive

// Whether brackets nest deeper than kDeepest. Counts without parsing: wrong nesting is the
// parser's.
bool TooDeep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepest) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

std::string PositionOf(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, byte == 0 ? 0 : byte - 1);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(before.size() - start + 1);
}

}  // namespace

Result<Json> ParseObject(std::string_view body) {
  if (TooDeep(body)) {
    return InvalidArgument("the body nests deeper than " + std::to_string(kDeepest) + " levels");
  }
  try {
    Json json = Json::parse(body);
    if (!json.is_object()) return InvalidArgument("the body must be a JSON object");
    return json;
  } catch (const Json::parse_error& error) {
    return InvalidArgument("the body is not JSON: at " + PositionOf(body, error.byte) + " near \"" +
                           Printable(body.substr(std::min(body.size(), error.byte), 20)) + "\"");
  } catch (const Json::exception& error) {  // a number out of range
    return InvalidArgument("the body is not usable JSON: " + Printable(error.what()));
  }
}

Status RefuseUnknown(const Json& json, std::span<const std::string_view> known) {
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::optional<std::string_view> meant = Nearest(key, known);
    return InvalidArgument(
        "unknown key \"" + Printable(key) + "\"" +
        (meant.has_value() ? " (did you mean \"" + std::string(*meant) + "\"?)" : std::string()));
  }
  return Status();
}

Status TakeText(const Json& json, const char* key, std::string& target) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return Status();
  if (!found->is_string()) return InvalidArgument("\"" + std::string(key) + "\" must be a text");
  target = found->get<std::string>();
  if (target.size() > kLongestText || target.find('\0') != std::string::npos) {
    return InvalidArgument("\"" + std::string(key) + "\" is too long or holds a zero byte");
  }
  return Status();
}

}  // namespace longhaul::service
