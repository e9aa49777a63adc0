#include "engines/kubernetes/double/api_request.h"

#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

std::string Decoded(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return (std::tolower(static_cast<unsigned char>(c)) - 'a') + 10;
  };
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      decoded.push_back(static_cast<char>(16 * digit(text[i + 1]) + digit(text[i + 2])));
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

}  // namespace

ApiRequest RequestFor(std::string method, const std::string& target, std::string body) {
  ApiRequest request;
  request.method = std::move(method);
  request.body = std::move(body);
  const size_t question = target.find('?');
  request.path = Decoded(target.substr(0, question));
  if (question == target.npos) return request;
  for (const std::string_view part : Split(std::string_view(target).substr(question + 1), '&')) {
    const size_t equals = part.find('=');
    if (equals == part.npos) continue;
    request.query[std::string(part.substr(0, equals))] = Decoded(part.substr(equals + 1));
  }
  return request;
}

}  // namespace longhaul::engines::kubernetes
