#include "service/http/http_request.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/text.h"

namespace longhaul::service {
namespace {

constexpr size_t kLongestMethod = 16;
constexpr size_t kLongestPath = 1024;
constexpr size_t kMostFields = 100;
constexpr size_t kMostParameters = 100;

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// A "token" of RFC 9110, section 5.6.2.
bool IsToken(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

bool HasControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7f;
  });
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Percent-decoded; what is no escape stays as it is. In a query a plus sign is a space.
std::string Decode(std::string_view text, bool query) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 &&
                        HexDigit(text[i + 2]) >= 0;
    if (escape) {
      decoded += static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2]));
      i += 2;
    } else {
      decoded += query && text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

// Takes "/path?query", or the same after "http://host" as proxies send it.
std::optional<HttpRefusal> ParseTarget(std::string_view target, HttpRequest& request) {
  const size_t scheme = target.find("://");
  if (scheme != std::string_view::npos && !target.starts_with('/')) {
    const size_t path = target.find('/', scheme + 3);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  if (!target.starts_with('/')) {
    return HttpRefusal{400, "the request's target must be a path that begins with '/'"};
  }
  const size_t mark = target.find('?');
  const std::string_view path = target.substr(0, mark);
  if (path.size() > kLongestPath) {
    return HttpRefusal{414, "the path has " + std::to_string(path.size()) + " bytes, at most " +
                                std::to_string(kLongestPath) + " are allowed"};
  }
  request.path = Decode(path, false);
  if (mark == std::string_view::npos) return std::nullopt;
  const std::vector<std::string_view> parameters = Split(target.substr(mark + 1), '&');
  if (parameters.size() > kMostParameters) {
    return HttpRefusal{
        400, "the query has more than " + std::to_string(kMostParameters) + " parameters"};
  }
  for (const std::string_view parameter : parameters) {
    if (parameter.empty()) continue;
    const size_t equals = parameter.find('=');
    const bool bare = equals == std::string_view::npos;
    request.query.emplace(Decode(parameter.substr(0, equals), true),
                          bare ? "" : Decode(parameter.substr(equals + 1), true));
  }
  return std::nullopt;
}

std::optional<HttpRefusal> ParseRequestLine(std::string_view line, HttpRequest& request) {
  const std::vector<std::string_view> parts = Split(line, ' ');
  if (parts.size() != 3 || !IsToken(parts[0]) || parts[0].size() > kLongestMethod ||
      HasControl(line)) {
    return HttpRefusal{400, "the first line is not an HTTP request: \"" + Printable(line, 60) +
                                "\", expected METHOD PATH HTTP/1.1"};
  }
  request.method = parts[0];
  if (parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0") {
    return HttpRefusal{505, "HTTP/1.1 is spoken here, not \"" + Printable(parts[2], 20) + "\""};
  }
  request.version_10 = parts[2] == "HTTP/1.0";
  return ParseTarget(parts[1], request);
}

std::optional<HttpRefusal> ParseField(std::string_view line, HttpRequest& request) {
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  if (colon == std::string_view::npos || !IsToken(name) || HasControl(line)) {
    return HttpRefusal{400, "not a header field: \"" + Printable(line, 60) + "\""};
  }
  const std::string_view value = Trim(line.substr(colon + 1));
  const auto [field, added] = request.headers.emplace(LowerCase(name), value);
  if (!added) field->second += ", " + std::string(value);
  return std::nullopt;
}

// How long the body is, and whether the connection stays.
std::optional<HttpRefusal> ParseFraming(HttpRequest& request) {
  if (request.headers.contains("transfer-encoding")) {
    return HttpRefusal{411,
                       "a body needs the header Content-Length; Transfer-Encoding is not "
                       "supported"};
  }
  const auto length = request.headers.find("content-length");
  if (length != request.headers.end()) {
    const Result<uint64_t> bytes = ParseUint64(length->second);
    if (!bytes.ok()) {
      return HttpRefusal{400, "Content-Length is not a number of bytes: \"" +
                                  Printable(length->second, 40) + "\""};
    }
    request.body_bytes = static_cast<size_t>(*bytes);
  }
  const std::string connection = LowerCase(request.Header("connection"));
  request.keep_alive = !request.version_10 && connection.find("close") == std::string::npos;
  return std::nullopt;
}

}  // namespace

std::string HttpRequest::Header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

std::optional<size_t> FindHead(std::string_view bytes, size_t searched) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  const size_t end = bytes.find(kEnd, searched);
  if (end == std::string_view::npos) return std::nullopt;
  return end + kEnd.size();
}

std::optional<HttpRefusal> ParseHead(std::string_view head, HttpRequest& request) {
  constexpr std::string_view kLineEnd = "\r\n";
  bool first = true;
  size_t fields = 0;
  while (true) {
    const size_t end = head.find(kLineEnd);
    if (end == 0 || end == std::string_view::npos) break;
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + kLineEnd.size());
    if (!first && ++fields > kMostFields) {
      return HttpRefusal{431, "more than " + std::to_string(kMostFields) + " header fields"};
    }
    std::optional<HttpRefusal> refusal =
        first ? ParseRequestLine(line, request) : ParseField(line, request);
    if (refusal.has_value()) return refusal;
    first = false;
  }
  if (first) return HttpRefusal{400, "the request is empty"};
  return ParseFraming(request);
}

std::string MediaType(std::string_view content_type) {
  return LowerCase(Trim(content_type.substr(0, content_type.find(';'))));
}

}  // namespace longhaul::service
