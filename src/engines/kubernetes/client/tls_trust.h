// What the connections of one HttpClient have in common in TLS: the authorities, which are parsed
// once, and the sessions, so that a further connection to the server resumes one.
//
// A handshake that resumes a session reads and verifies no certificate: the scheduler of pods opens
// 16 connections for a burst of binds, and each full handshake costs as much as ten binds. libcurl
// resumes a session only for a request with the same client certificate, authorities and names.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <string>

#include "base/status.h"

struct x509_store_st;  // of OpenSSL

namespace longhaul::engines::kubernetes {

class TlsTrust {
 public:
  // `authorities`: PEM; empty for the system's. Refuses a text without a certificate.
  static Result<std::unique_ptr<TlsTrust>> Create(const std::string& authorities);
  // Requires that all handles it was applied to are gone.
  ~TlsTrust();
  TlsTrust(const TlsTrust&) = delete;
  TlsTrust& operator=(const TlsTrust&) = delete;

  // Makes a handle of libcurl use both. Requires that this outlives the handle.
  void Apply(CURL* easy) const;

 private:
  TlsTrust(x509_store_st* store, CURLSH* sessions) : store_(store), sessions_(sessions) {}
  static CURLcode OnContext(CURL* easy, void* context, void* self);

  x509_store_st* const store_;  // null: the system's authorities
  CURLSH* const sessions_;
};

}  // namespace longhaul::engines::kubernetes
