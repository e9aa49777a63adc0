// An S3-compatible object store: reads objects whole or in ranges, lists, writes in parts, removes.
//
// Addresses are in path style (`ENDPOINT/BUCKET/KEY`), which every server supports. Requests are
// signed (signature.h) and retried a few times after temporary errors: a broken connection, 429,
// 500, 502, 503, 504. Credentials come from the environment or a file, and no message contains
// them. Leaves out: versions, server-side encryption, access lists, roles and their renewal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "objects/listing.h"
#include "objects/signature.h"

namespace longhaul::objects {

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  size_t received = 0;  // bytes in Outgoing::into
};

// A request as it is sent.
struct Outgoing {
  std::string method;
  std::string target;  // encoded
  std::map<std::string, std::string> headers;
  std::span<const std::byte> body;
  uint64_t limit = 0;  // of the answer's body
  // The destination of the body of a success (2xx) instead of Answer::body; empty: Answer::body.
  std::span<std::byte> into;
};

// Sends requests over the network and returns the answer to each. Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;
  // kResourceExhausted when the answer has more than `limit` bytes, or a success has more than
  // `into` can hold; kUnavailable when there is no answer, or it is incomplete; kFailedPrecondition
  // when the server's certificate is rejected.
  virtual Result<Answer> Send(const Outgoing& request) = 0;
};

struct StoreOptions {
  std::string scheme = "https";
  std::string host;  // with its port, if it is not the scheme's own
  std::string region = "us-east-1";
  std::string certificates;  // a file of certificates; empty: the system's
  Credentials credentials;
  size_t connections = 8;  // at most, at the same time
  Duration connect_timeout = std::chrono::seconds(10);
  // A transfer of less than a KiB a second for this long is aborted. In whole seconds.
  Duration stall_timeout = std::chrono::seconds(60);
};

// From AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (default: Amazon's of the region), AWS_REGION or
// AWS_DEFAULT_REGION, AWS_CA_BUNDLE, and AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
// AWS_SESSION_TOKEN; without these the section AWS_PROFILE (default: default) of the file
// AWS_SHARED_CREDENTIALS_FILE (default: ~/.aws/credentials). `read` reads a small file. The error
// names the missing value and how to provide it.
Result<StoreOptions> OptionsFrom(
    const std::function<std::optional<std::string>(const std::string& name)>& variable,
    const std::function<Result<std::string>(const std::string& path)>& read);

// Over HTTP/1.1 or HTTPS by libcurl. A request uses one connection exclusively, which stays open
// for the next one; a call blocks while all `options.connections` are in use. Bodies are sent
// without a copy. When a server rejects a request before it has read the body, its answer is the
// result. Uses no proxy and follows no redirection.
std::unique_ptr<Transport> HttpTransport(const StoreOptions& options);

// Thread-safe.
class Store {
 public:
  // `now` returns the time for signatures, `wait` blocks for the time between two attempts.
  Store(StoreOptions options, std::unique_ptr<Transport> transport, std::function<Instant()> now,
        std::function<void(Duration)> wait);

  struct Facts {
    uint64_t bytes = 0;
    std::string tag;  // ETag: differs after each change
  };
  Result<Facts> Head(const std::string& bucket, const std::string& key);
  // The whole object; kResourceExhausted above `limit`.
  Result<std::string> Get(const std::string& bucket, const std::string& key, uint64_t limit);
  // Bytes [offset, offset + to.size()) of the object in the version `tag`; kDataLoss when it has
  // changed or ends earlier.
  Status GetRange(const std::string& bucket, const std::string& key, const std::string& tag,
                  uint64_t offset, std::span<std::byte> to);
  Status Put(const std::string& bucket, const std::string& key, std::span<const std::byte> bytes);
  Status Remove(const std::string& bucket, const std::string& key);
  // All objects below `prefix` up to the next '/', and the prefixes that have keys after one.
  Result<Listing> List(const std::string& bucket, const std::string& prefix);

  // An object in parts, visible once it is completed. All parts but the last have at least 5 MiB.
  Result<std::string> BeginParts(const std::string& bucket, const std::string& key);
  Result<std::string> PutPart(const std::string& bucket, const std::string& key,
                              const std::string& upload, uint32_t number,
                              std::span<const std::byte> bytes);  // the part's tag
  Status CompleteParts(const std::string& bucket, const std::string& key, const std::string& upload,
                       const std::vector<std::string>& tags);
  Status AbortParts(const std::string& bucket, const std::string& key, const std::string& upload);

 private:
  Result<Answer> Ask(Request request, uint64_t limit, std::span<std::byte> into = {});

  const StoreOptions options_;
  const std::unique_ptr<Transport> transport_;
  const std::function<Instant()> now_;
  const std::function<void(Duration)> wait_;
};

}  // namespace longhaul::objects
