package Howdah::Test::Agent;

# Asks a server with the clients that people use: LWP and curl. A real application must please both.
#
#   my $agent = Howdah::Test::Agent->new($server->url);
#   my $response = $agent->get('/path');                       # HTTP::Response, by LWP
#   my ($status, $body) = $agent->curl('/path', '-F', 'a=b');  # by curl
use strict;
use warnings;

use Digest::MD5 ();
use File::Temp ();
use Howdah::Test::File qw(read_file);
use HTTP::Cookies ();
use HTTP::Request::Common ();
use LWP::UserAgent ();

sub new {
    my ($class, $url) = @_;
    my $lwp = LWP::UserAgent->new(timeout => 60, keep_alive => 1, no_proxy => ['127.0.0.1'], max_redirect => 0);
    $lwp->cookie_jar(HTTP::Cookies->new);
    return bless {url => $url, lwp => $lwp}, $class;
}

sub get { my ($self, $path, @rest) = @_; return $self->{lwp}->get($self->{url} . $path, @rest) }

# $fields: [name => value, ...], a file as [path].
sub post {
    my ($self, $path, $fields, @headers) = @_;
    local $HTTP::Request::Common::DYNAMIC_FILE_UPLOAD = 1;    # files stream from the disk
    return $self->{lwp}->request(HTTP::Request::Common::POST($self->{url} . $path, @headers, Content => $fields));
}

sub curl {
    my ($self, $path, @options) = @_;
    my $out     = File::Temp->new;
    my @command = ('curl', '-sS', '--noproxy', '*', '--max-time', 60, '-o', "$out", '-w', '%{http_code}', @options);
    open my $pipe, '-|', @command, $self->{url} . $path or die "cannot run curl: $!";
    my $status = <$pipe> // '';
    close $pipe or $status .= ' curl failed with ' . ($? >> 8);
    return ($status, read_file($out));
}

# A file of pseudo-random bytes and its checksum.
sub large_file {
    my ($class, $size) = @_;
    my $file  = File::Temp->new(SUFFIX => '.bin');
    my $md5   = Digest::MD5->new;
    my $block = join '', map { pack 'N', $_ * 2654435761 % 4294967296 } 0 .. 16383;
    for (my $left = $size ; $left > 0 ; $left -= 65536) {
        my $piece = substr pack('N', $left) . $block, 0, $left < 65536 ? $left : 65536;
        print {$file} $piece or die $!;
        $md5->add($piece);
    }
    close $file or die $!;
    return ($file, $md5->hexdigest);
}

1;
