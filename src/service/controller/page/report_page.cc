#include "service/controller/page/report_page.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>
#include <string_view>

#include "base/check.h"
#include "base/format.h"
#include "service/controller/page/page_files.h"

namespace longhaul::service {
namespace {

std::string_view BytesOf(std::string_view path) {
  for (const PageFile& file : PageFiles()) {
    if (path == file.path) return file.bytes;
  }
  CHECK(false);
  return {};
}

// The source of a policy that permits exactly this script or style.
std::string PolicySource(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::array<unsigned char, 2 * SHA256_DIGEST_LENGTH> base64;
  const int length = EVP_EncodeBlock(base64.data(), digest.data(), digest.size());
  return "'sha256-" +
         std::string(reinterpret_cast<const char*>(base64.data()), static_cast<size_t>(length)) +
         "'";
}

// In a script element, "</script" would end the element and "<!--" change how its end is found.
// Within a JSON text both occur in strings only, where "<" can be written as an escape.
std::string EscapedJson(const nlohmann::ordered_json& data) {
  const std::string text =
      data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string escaped;
  escaped.reserve(text.size());
  for (const char each : text) {
    if (each == '<') {
      escaped += "\\u003c";
    } else {
      escaped += each;
    }
  }
  return escaped;
}

}  // namespace

std::string ReportPage(const std::string& title, const nlohmann::ordered_json& data) {
  const std::string script(BytesOf("/page.js"));
  const std::string style(BytesOf("/page.css"));
  // The build of the page guarantees it (report_page_test).
  CHECK(script.find("</script") == std::string::npos && script.find("<!--") == std::string::npos);
  const std::string policy = "default-src 'none'; script-src " + PolicySource(script) +
                             "; style-src " + PolicySource(style) +
                             "; base-uri 'none'; form-action 'none'; "
                             "require-trusted-types-for 'script'; trusted-types 'none'";
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"" +
         policy +
         "\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
         EscapeXml(Harmless(title)) + "</title>\n<style>" + style +
         "</style>\n</head>\n<body>\n<div id=\"page\"></div>\n"
         "<noscript>This report needs JavaScript. The file report.md beside it does not.</noscript>"
         "\n<script type=\"application/json\" id=\"report\">" +
         EscapedJson(data) + "</script>\n<script type=\"application/json\" id=\"licences\">" +
         EscapedJson(std::string(BytesOf("/licences.txt"))) +
         "</script>\n<script type=\"module\">" + script + "</script>\n</body>\n</html>\n";
}

}  // namespace longhaul::service
