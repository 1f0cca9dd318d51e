package Howdah::Test::Apache;

# A real Apache httpd, with an access log in a given format: the judge of ours.
#
#   Howdah::Test::Apache->is_installed or plan skip_all => ...;
#   my $apache = Howdah::Test::Apache->start(format => '%h %>s', modules => ['env'], lines => 'SetEnv A 1');
#   $apache->port; $apache->url; $apache->log; $apache->errors; $apache->dir;    # /hello.html and /empty.txt are served
#   Howdah::Test::Apache->run_scripts('cgi', 't/cgi/scripts');    # or 'registry': scripts, below /cgi
#
# It is one process (-X). What is not given: `mpm` is event, `type`, the Content-Type of all, that of HTML (undef for none).
use strict;
use warnings;

use File::Temp ();
use Howdah::Test::Ports qw(free_port);
use IO::Socket::INET ();
use POSIX ();
use Time::HiRes qw(sleep time);

my ($program)   = grep { -x } qw(/usr/sbin/apache2 /usr/sbin/httpd);
my ($directory) = grep { -d } qw(/usr/lib/apache2/modules /usr/lib64/httpd/modules);

# With these modules, too.
sub is_installed {
    my ($class, @modules) = @_;
    return $program && $directory && !grep { !-e "$directory/mod_$_.so" } @modules;
}

sub has_module { my (undef, $name) = @_; return $directory && -e "$directory/mod_$name.so" }

# The scripts of a directory by mod_cgi, or compiled once by ModPerl::Registry, in one process.
sub run_scripts {
    my ($class, $how, $scripts) = @_;
    my %lines = (
        cgi      => 'SetHandler cgi-script',
        registry => "SetHandler perl-script\nPerlResponseHandler ModPerl::Registry\nPerlOptions +ParseHeaders",
    );
    return $class->start(
        mpm     => 'prefork',
        type    => undef,
        modules => ['alias', $how eq 'cgi' ? 'cgi' : 'perl'],
        scripts => $scripts,
        lines   => ($how eq 'cgi' ? '' : "PerlModule ModPerl::Registry\n")
            . "Alias /cgi/ %DIR%/scripts/\n<Directory %DIR%/scripts>\nOptions +ExecCGI\n$lines{$how}\n</Directory>",
    );
}

sub start {
    my ($class, %wish) = @_;
    my $self = bless {dir => File::Temp->newdir, owner => $$}, $class;
    $self->{port} = free_port();
    chmod 0755, "$self->{dir}" or die $!;
    mkdir "$self->{dir}/www" or die $!;
    $self->write_file('www/hello.html', 'hello world');
    $self->write_file($_, $wish{files}{$_}) for keys %{$wish{files} // {}};
    system('cp', '-Rp', $wish{scripts}, "$self->{dir}/scripts") == 0 or die 'cannot copy scripts' if $wish{scripts};
    $self->write_file('httpd.conf', $self->_configuration(%wish));
    $self->{pid} = fork // die $!;
    $self->{pid} or exec $program, '-X', '-d', $self->dir, '-f', "$self->{dir}/httpd.conf" or POSIX::_exit(127);
    my $end = time + 10;

    until (IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port})) {
        die 'httpd does not start' if time > $end;
        sleep 0.05;
    }
    return $self;
}

sub dir { return "$_[0]{dir}" }
sub errors { return "$_[0]{dir}/error.log" }
sub log { return "$_[0]{dir}/apache.log" }    ## no critic (ProhibitBuiltinHomonyms)
sub port { return $_[0]{port} }
sub url { return "http://127.0.0.1:$_[0]{port}" }

sub write_file {
    my ($self, $name, $text) = @_;
    open my $out, '>:raw', "$self->{dir}/$name" or die "cannot write $name: $!";
    print {$out} $text;
    close $out or die "cannot write $name: $!";
    return;
}

sub _configuration {
    my ($self, %wish) = @_;
    my $dir    = $self->dir;
    my $format = ($wish{format} // '%r %>s') =~ s/(?=")/\\/gr;
    my $mpm    = 'mpm_' . ($wish{mpm} // 'event');
    my @wanted = ($mpm, qw(authz_core headers), @{$wish{modules} // []});
    my $type   = exists $wish{type} ? $wish{type} : 'text/html; charset=utf-8';
    my $header = defined $type ? qq{Header set Content-Type "$type"} : '';
    my $load   = join '', map { "LoadModule ${_}_module $directory/mod_$_.so\n" } @wanted;
    return <<"CONF";
$load
User nobody
Group nogroup
ServerName judge.example
Listen 127.0.0.1:$self->{port}
DefaultRuntimeDir $dir
PidFile $dir/pid
ErrorLog $dir/error.log
DocumentRoot $dir/www
$header
@{[($wish{lines} // '') =~ s/%DIR%/$dir/gr]}
LogFormat "$format" judge
CustomLog $dir/apache.log judge
CONF
}

sub DESTROY {
    my $self = shift;
    return if $self->{owner} != $$ || !$self->{pid};
    local ($@, $!, $?);
    kill KILL => $self->{pid};
    waitpid $self->{pid}, 0;
    return;
}

1;
