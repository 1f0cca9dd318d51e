# WebSocket by HTTP/2 as a browser speaks it: Chromium opens a stream for it on the connection that the page came by.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Server;
use Howdah::Test::Tls;
use Howdah::Test::WebSocket;
use POSIX ();
use Test::More;

my ($chromium) = grep { -x } map { ("$_/chromium", "$_/google-chrome") } split /:/, $ENV{PATH};
plan skip_all => 'needs Chromium' if !$chromium;
plan skip_all => 'needs Protocol::WebSocket' if !Howdah::Test::WebSocket->is_installed;
plan skip_all => 'needs openssl' if !Howdah::Test::Tls->is_installed;

# The response has no Sec-WebSocket-Accept: by HTTP/1.1 a browser would not take it.
my $app = <<'PSGI';
use Protocol::WebSocket::Frame;
my $page = <<'HTML';
<!doctype html><script>
const socket = new WebSocket(`wss://${location.host}/socket`, ['chat', 'other']);
socket.binaryType = 'arraybuffer';
const heard = [];
socket.onopen = () => { heard.push(socket.protocol); socket.send('hello') };
socket.onmessage = ({data}) => {
    heard.push(typeof data === 'string' ? data : data.byteLength);
    if (heard.length === 2) socket.send(new Uint8Array(1000000));
    else socket.close(1000);
};
socket.onclose = ({code, wasClean}) => fetch(`/done?${heard},${code},${wasClean}`);
</script>
HTML
sub frame { my ($type, $bytes) = @_; return Protocol::WebSocket::Frame->new(max_payload_size => 0, type => $type, buffer => $bytes)->to_bytes }
sub echo {
    my $io    = shift;
    my $input = Protocol::WebSocket::Frame->new(max_payload_size => 0, max_fragments_amount => 1024);
    while (sysread $io, my $bytes, 65536) {
        $input->append($bytes);
        while (defined(my $message = $input->next_bytes)) {
            return print {$io} frame(close => $message) if $input->is_close;
            print {$io} frame($input->is_text ? 'text' : 'binary', $message);
        }
    }
}
sub {
    my $env = shift;
    return [200, ['Content-Type' => 'text/html'], [$page]] if $env->{PATH_INFO} ne '/socket';
    return sub { $_[0]->([101, [Upgrade => 'websocket', 'Sec-WebSocket-Protocol' => 'chat'], []]); echo($env->{'psgix.io'}) };
};
PSGI

my $tls    = Howdah::Test::Tls->new;
my $log    = File::Temp->new;
my $server = Howdah::Test::Server->start(
    app     => $app,
    listen  => undef,
    options => [
        '-l', 'tls:127.0.0.1:0', '--workers', 3, $tls->options,
        '--access-log', "$log", '--access-log-format', '%H %U%q %>s',
    ],
);
my ($url) = $server->urls;
my $dir = File::Temp->newdir;

my $pid = fork // die $!;
if (!$pid) {
    setpgrp;
    open STDIN, '<', '/dev/null' or die $!;
    open STDOUT, '>', "$dir/out" or die $!;
    open STDERR, '>&', \*STDOUT or die $!;
    local @ENV{qw(HOME XDG_CONFIG_HOME XDG_CACHE_HOME)} = ("$dir") x 3;
    exec $chromium, '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
        '--disable-background-networking', '--ignore-certificate-errors', "--user-data-dir=$dir/profile",
        '--remote-debugging-port=0', $url
        or POSIX::_exit(127);
}

END {
    if ($pid) {
        my $status = $?;
        kill KILL => -$pid;
        waitpid $pid, 0;
        $? = $status;    ## no critic (RequireLocalizedPunctuationVars)
    }
}

sub lines {
    open my $in, '<', "$log" or die $!;
    return join '', <$in>;
}

ok $server->wait_until(sub { lines() =~ /done/ }, 60), 'the page is through' or diag lines();
like lines(), qr{^HTTP/2 / 200$}m, 'it came by HTTP/2';
like lines(), qr{/done\?chat,hello,1000000,1000,true }, 'protocol, text, bytes and an end in order';
ok $server->wait_until(sub { lines() =~ m{^HTTP/2 /socket 200$}m }, 10), 'all of it by a stream' or diag lines();
unlike $server->log, qr/ERROR|WARN/, 'nothing to complain of';

done_testing;
