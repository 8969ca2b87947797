//! How common bytes and short strings are in ordinary traffic: a guess, used only to choose what to look
//! for first, never to decide whether a rule matches.

use std::collections::BTreeSet;

/// How rare a byte is, from 0 (very common) to 9. Letters of both cases count the same.
pub(crate) fn byte_rarity(byte: u8) -> u32 {
    match byte.to_ascii_lowercase() {
        b' ' | b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' => 0,
        b'l' | b'c' | b'd' | b'p' | b'm' | b'h' | b'u' | b'/' | b'.' | b'-' => 1,
        b'g' | b'w' | b'f' | b'y' | b'b' | b'v' | b'k' | b'0'..=b'9' | b':' | b',' | b'=' => 2,
        b'\r' | b'\n' | b'"' | b';' | b'x' | b'j' | b'q' | b'z' | b'_' | 0 => 3,
        b'<' | b'>' | b'(' | b')' | b'\'' | b'&' | b'?' | b'%' | b'+' | 0xff => 4,
        0x21..=0x7e => 6,
        _ => 8,
    }
}

/// Made-up traffic of the most common kind. Strings of four bytes found in it are poor things to look for.
const ORDINARY: &[u8] = b"GET / HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: Mozilla/5.0 (Windows NT 10.0; \
Win64; x64; rv:102.0; compatible; MSIE 6.0) AppleWebKit/537.36 (KHTML, like Gecko) Gecko/20100101 Chrome/96 \
Safari/537.36 Firefox/102.0\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,image/png,*/*;q=0.8\
\r\nAccept-Language: en-us,en;q=0.5\r\nAccept-Encoding: gzip, deflate\r\nAccept-Charset: utf-8\r\nReferer: \
http://www.example.org/index.php?id=1&name=2\r\nCookie: session=0\r\nConnection: keep-alive\r\n\
Proxy-Connection: close\r\nContent-Type: application/x-www-form-urlencoded; charset=utf-8\r\nContent-Length: \
10\r\nCache-Control: max-age=0, no-cache\r\nPragma: no-cache\r\n\r\nPOST HEAD HTTP/1.0 HTTP/1.1 200 OK\r\nDate: \
Mon, 01 Jan 2000 00:00:00 GMT\r\nServer: Apache nginx\r\nLast-Modified: Expires: Set-Cookie: path=/; domain=\
Transfer-Encoding: chunked\r\nVary: Accept-Ranges: bytes ETag: Content-Disposition: attachment; filename=\
<!DOCTYPE html><html><head><title></title><meta name=\"content\"><script type=\"text/javascript\" src=\"/js/\">\
</script><link rel=\"stylesheet\" href=\"https://\"></head><body class=\"main\" style=\"\"><div id=\"\"><p><a \
href=\"/\"><img src=\"images/.jpg\" width=\"\" height=\"\"></a><span></span></p></div><table><tr><td></td></tr>\
</table><ul><li></li></ul><form action=\"\" method=\"post\"><input type=\"submit\" value=\"\"></form></body>\
</html> function(){var document.getElement return true; false; window.location new this. } .com .net .org .php \
.asp .html .exe .css .gif .jpg .png the and that with for this from have not are was 0000 1111 ....    ";

/// Strings of four bytes that are common in traffic, in lower case.
#[derive(Debug)]
pub(crate) struct CommonStrings {
    strings: BTreeSet<[u8; 4]>,
}

impl CommonStrings {
    pub(crate) fn new() -> Self {
        let lower = ORDINARY.to_ascii_lowercase();
        let strings = lower
            .windows(4)
            .filter_map(|window| window.try_into().ok())
            .collect();
        CommonStrings { strings }
    }

    /// How rare a string is, judged by the first four bytes from `at`, in lower case.
    pub(crate) fn rarity(&self, bytes: &[u8], at: usize) -> u32 {
        let Some(four) = bytes.get(at..at + 4) else {
            return 0;
        };
        let sum: u32 = four.iter().map(|&byte| byte_rarity(byte)).sum();
        let Ok(four) = <[u8; 4]>::try_from(four) else {
            return 0;
        };
        let repeated = four.iter().all(|&byte| byte == four[0]);
        if self.strings.contains(&four) || repeated {
            sum / 4
        } else {
            sum + 8
        }
    }
}
