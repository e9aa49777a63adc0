// Calls to an API server one after the other, for tests: sends a call and runs the loop until its
// reply has come.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engines/kubernetes/client/client.h"
#include "engines/kubernetes/double/transcript.h"
#include "io/event_loop.h"

namespace longhaul::engines::kubernetes {

class Conversation {
 public:
  // Requires that `loop` is the client's.
  Conversation(io::EventLoop& loop, Client& client) : loop_(loop), client_(client) {}

  // Sends a call, writes it and its reply to the transcript, and returns the reply.
  Reply Do(std::string_view label, Result<Call> call);
  // The same without the transcript.
  Reply Quietly(Result<Call> call);

  // Runs the loop until `done` returns true. Records a failure after 30 s.
  void Until(std::string_view what, const std::function<bool()>& done);

  Transcript& transcript() { return transcript_; }
  // The first failure of this conversation itself: a call that got no response, a time-out.
  const Status& status() const { return status_; }

 private:
  io::EventLoop& loop_;
  Client& client_;
  Transcript transcript_;
  Status status_;
};

// A GET of any target.
Call RawGet(std::string target);
// Any other request.
Call RawCall(std::string method, std::string target, std::string content_type, std::string body);
// The text at a JSON pointer ("/metadata/uid"); empty where there is none.
std::string TextAt(const Reply& reply, const std::string& pointer);

}  // namespace longhaul::engines::kubernetes
