#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "base/check.h"
#include "io/clock.h"
#include "service/notify/hook_delivery.h"

namespace longhaul::service {
namespace {

struct FreeHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct FreeHeaders {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// The answer is not used, and one without end must not fill the memory.
size_t DiscardAnswer(char* /*data*/, size_t size, size_t count, void* received) {
  constexpr size_t kMostAnswer = size_t{1} << 20;
  size_t& bytes = *static_cast<size_t*>(received);
  bytes += size * count;
  return bytes <= kMostAnswer ? size * count : 0;
}

// libcurl calls it about once a second, and more often while bytes move.
int IsTooLate(void* deadline, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return io::MonotonicNow() >= static_cast<const io::CommandDeadline*>(deadline)->at() ? 1 : 0;
}

// Of the reasons why no answer came, those that may pass.
bool MayPass(CURLcode code) {
  return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
         code == CURLE_OPERATION_TIMEDOUT || code == CURLE_GOT_NOTHING ||
         code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR;
}

}  // namespace

HookOutcome PostToWebhook(const spec::HookSpec& hook, const HookMessage& message,
                          const io::CommandDeadline& deadline) {
  // Once a process, and thread-safe: libcurl counts further calls.
  CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
  const std::unique_ptr<CURL, FreeHandle> handle(curl_easy_init());
  CHECK(handle != nullptr);
  const std::unique_ptr<curl_slist, FreeHeaders> headers(
      curl_slist_append(nullptr, "Content-Type: application/json"));
  const auto set = [&handle](CURLoption option, auto value) {
    return curl_easy_setopt(handle.get(), option, value) == CURLE_OK;
  };
  const Duration left = std::min(hook.timeout, deadline.at() - io::MonotonicNow());
  const long timeout_ms = std::max(
      1L, static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(left).count()));
  size_t received = 0;
  bool good = set(CURLOPT_URL, hook.webhook.c_str());
  good = good && set(CURLOPT_PROTOCOLS_STR, "http,https");
  good = good && set(CURLOPT_FOLLOWLOCATION, 0L);
  good = good && set(CURLOPT_NOSIGNAL, 1L);
  good = good && set(CURLOPT_TIMEOUT_MS, timeout_ms);
  good = good && set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  good = good && set(CURLOPT_HTTPHEADER, headers.get());
  good = good && set(CURLOPT_USERAGENT, "longhaul");
  good = good && set(CURLOPT_POST, 1L);
  good = good && set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(message.json.size()));
  good = good && set(CURLOPT_POSTFIELDS, message.json.c_str());
  good = good && set(CURLOPT_WRITEFUNCTION, &DiscardAnswer);
  good = good && set(CURLOPT_WRITEDATA, &received);
  good = good && set(CURLOPT_NOPROGRESS, 0L);
  good = good && set(CURLOPT_XFERINFOFUNCTION, &IsTooLate);
  good = good && set(CURLOPT_XFERINFODATA, &deadline);
  if (!good) return {InternalError("libcurl refused an option of the request")};
  const CURLcode code = curl_easy_perform(handle.get());
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status == 0) {
    // The texts of curl_easy_strerror are fixed, so they have no part of the address.
    return {Unavailable("no answer: " + std::string(curl_easy_strerror(code))), MayPass(code)};
  }
  if (status / 100 == 2) return {};
  return {Unavailable("the server answered with status " + std::to_string(status)),
          status / 100 == 5 || status == 429};
}

}  // namespace longhaul::service
